//! Since: where a backup ended, so that another can go on from there, and nothing else can.

use std::fmt;
use std::str::FromStr;

use weir_model::{Text, Tick};

use super::GraphId;
use super::bytes::{Reader, Wrong};

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Since {
    /// Which backup: the checksum of its checksums, and how many blocks it has.
    pub after: u64,
    /// How many symbols there were, and a checksum over their names: those of a store never change.
    pub symbols: u32,
    pub names: u32,
    /// The tick up to which it has each graph.
    pub graphs: Vec<(GraphId, Tick)>,
    /// How often pages of a graph had been written again without what was erased, where that was at all.
    pub rewritten: Vec<(GraphId, u64)>,
    /// The life in which a graph was (`lives.rs`). Of one that was last written to before there were lives, none.
    pub lives: Vec<(GraphId, u64)>,
}

/// Of a graph for which it is said how often its pages were written again, in a list of graphs and ticks.
const REWRITTEN: u32 = 1 << 31;

/// Of a graph for which its life is named there.
const LIFE: u32 = 1 << 30;

impl Since {
    pub fn graph(&self, id: GraphId) -> Option<Tick> {
        self.graphs.iter().find(|(known, _)| *known == id).map(|(_, tick)| *tick)
    }

    pub fn rewritten(&self, id: GraphId) -> u64 {
        self.rewritten.iter().find(|(known, _)| *known == id).map_or(0, |(_, times)| *times)
    }

    /// None where the backup names none.
    pub fn life(&self, id: GraphId) -> Option<u64> {
        self.lives.iter().find(|(known, _)| *known == id).map(|(_, life)| *life)
    }

    /// Pairs of numbers, as they are written.
    fn pairs(&self) -> impl Iterator<Item = (u32, u64)> {
        let rewritten = self.rewritten.iter().map(|(graph, times)| (graph.0 | REWRITTEN, *times));
        let lives = self.lives.iter().map(|(graph, life)| (graph.0 | LIFE, *life));
        self.graphs.iter().map(|(graph, tick)| (graph.0, tick.0)).chain(rewritten).chain(lives)
    }

    fn of_pairs(mut self, pairs: impl IntoIterator<Item = (u32, u64)>) -> Since {
        for (graph, number) in pairs {
            match graph & (REWRITTEN | LIFE) {
                0 => self.graphs.push((GraphId(graph), Tick(number))),
                LIFE => self.lives.push((GraphId(graph & !LIFE), number)),
                _ => self.rewritten.push((GraphId(graph & !REWRITTEN), number)),
            }
        }
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.after.to_le_bytes().to_vec();
        out.extend(self.symbols.to_le_bytes());
        out.extend(self.names.to_le_bytes());
        for (graph, number) in self.pairs() {
            out.extend(graph.to_le_bytes());
            out.extend(number.to_le_bytes());
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Since, Wrong> {
        let mut reader = Reader(bytes);
        let (after, symbols, names) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let mut pairs = Vec::new();
        while !reader.0.is_empty() {
            pairs.push((reader.u32()?, reader.u64()?));
        }
        Ok(Since { after, symbols, names, ..Since::default() }.of_pairs(pairs))
    }
}

pub fn checksum_of(names: &[Text]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for name in names {
        hasher.update(&(name.len() as u32).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    hasher.finalize()
}

/// So much of a text is shown that is none: it may be long.
const SHOWN_MAX: usize = 100;

/// As it travels over HTTP: numbers with points between them.
impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}.{:x}", self.after, self.symbols, self.names)?;
        self.pairs().try_for_each(|(graph, number)| write!(f, ".{graph:x}.{number:x}"))
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Since, String> {
        let wrong = || format!("'{}' does not say where a backup ended", text.chars().take(SHOWN_MAX).collect::<String>());
        let numbers = text.split('.').map(|number| u64::from_str_radix(number, 16).map_err(|_| wrong()));
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
        let small = |number: u64| u32::try_from(number).map_err(|_| wrong());
        let [after, symbols, names, graphs @ ..] = &numbers[..] else { return Err(wrong()) };
        let pair = |pair: &[u64]| match pair {
            [graph, number] => Ok((small(*graph)?, *number)),
            _ => Err(wrong()),
        };
        let pairs: Vec<(u32, u64)> = graphs.chunks(2).map(pair).collect::<Result<_, _>>()?;
        let (symbols, names) = (small(*symbols)?, small(*names)?);
        Ok(Since { after: *after, symbols, names, ..Since::default() }.of_pairs(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        for graphs in [vec![], vec![(GraphId(0), Tick(5)), (GraphId(7), Tick(u64::MAX))]] {
            let rewritten = graphs.iter().map(|(graph, _)| (*graph, 2)).collect();
            let lives = graphs.iter().map(|(graph, _)| (*graph, u64::MAX)).collect();
            let since = Since { after: u64::MAX, symbols: 3, names: 4, graphs, rewritten, lives };
            assert_eq!(since.to_string().parse(), Ok(since.clone()));
            assert_eq!(Since::decode(&since.encode()), Ok(since));
        }
        for wrong in ["", "1.2", "1.2.x", "1.2.3.4", "1.2.fffffffff"] {
            assert!(wrong.parse::<Since>().is_err(), "{wrong}");
        }
        assert!("x".repeat(1 << 20).parse::<Since>().is_err_and(|reason| reason.len() < 200));
        assert!(Since::decode(&[0; 17]).is_err());
    }
}
