//! Since: where a backup ended, so that another can go on from there, and nothing else can.

use std::fmt;
use std::str::FromStr;

use weir_model::{Text, Tick};

use super::GraphId;
use super::bytes::{Reader, Wrong};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Since {
    /// Which backup: the checksum of its checksums, and how many blocks it has.
    pub after: u64,
    /// How many symbols there were, and a checksum over their names: those of a store never change.
    pub symbols: u32,
    pub names: u32,
    /// The tick up to which it has each graph.
    pub graphs: Vec<(GraphId, Tick)>,
}

impl Since {
    pub fn graph(&self, id: GraphId) -> Option<Tick> {
        self.graphs.iter().find(|(known, _)| *known == id).map(|(_, tick)| *tick)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.after.to_le_bytes().to_vec();
        out.extend(self.symbols.to_le_bytes());
        out.extend(self.names.to_le_bytes());
        for (graph, tick) in &self.graphs {
            out.extend(graph.0.to_le_bytes());
            out.extend(tick.0.to_le_bytes());
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Since, Wrong> {
        let mut reader = Reader(bytes);
        let (after, symbols, names) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let mut graphs = Vec::new();
        while !reader.0.is_empty() {
            graphs.push((GraphId(reader.u32()?), reader.tick()?));
        }
        Ok(Since { after, symbols, names, graphs })
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

/// As it travels in the parameter of a URL: numbers with points between them.
impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}.{:x}", self.after, self.symbols, self.names)?;
        self.graphs.iter().try_for_each(|(graph, tick)| write!(f, ".{:x}.{:x}", graph.0, tick.0))
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Since, String> {
        let wrong = || format!("'{text}' does not say where a backup ended");
        let numbers = text.split('.').map(|number| u64::from_str_radix(number, 16).map_err(|_| wrong()));
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
        let small = |number: u64| u32::try_from(number).map_err(|_| wrong());
        let [after, symbols, names, graphs @ ..] = &numbers[..] else { return Err(wrong()) };
        let graph = |pair: &[u64]| match pair {
            [graph, tick] => Ok((GraphId(small(*graph)?), Tick(*tick))),
            _ => Err(wrong()),
        };
        let graphs = graphs.chunks(2).map(graph).collect::<Result<_, _>>()?;
        Ok(Since { after: *after, symbols: small(*symbols)?, names: small(*names)?, graphs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        for graphs in [vec![], vec![(GraphId(0), Tick(5)), (GraphId(7), Tick(u64::MAX))]] {
            let since = Since { after: u64::MAX, symbols: 3, names: 4, graphs };
            assert_eq!(since.to_string().parse(), Ok(since.clone()));
            assert_eq!(Since::decode(&since.encode()), Ok(since));
        }
        for wrong in ["", "1.2", "1.2.x", "1.2.3.4", "1.2.fffffffff"] {
            assert!(wrong.parse::<Since>().is_err(), "{wrong}");
        }
        assert!(Since::decode(&[0; 17]).is_err());
    }
}
