//! What happens to the processes of a few imaginary hosts. Seeded, so that the same seed tells the same story.

use weir_model::random::{STEP, mix};
use weir_model::{Text, Value};

const HOSTS: [&str; 4] = ["alder", "birch", "cedar", "dogwood"];
const NAMES: [&str; 8] = ["viewer", "sh", "curl", "editor", "cron", "make", "cc", "backup"];

/// Processes that live at a time, about.
const ALIVE: usize = 60;

/// One in this many starts begins the story the standing query looks for.
const STORY_EVERY: u64 = 6;

#[derive(Debug)]
pub enum Change {
    Start { pid: i64, parent: i64, host: &'static str, name: &'static str },
    Rename { pid: i64, name: &'static str },
    End { pid: i64 },
}

pub struct Generator {
    state: u64,
    next_pid: i64,
    alive: Vec<(i64, &'static str)>,
    /// What happens next, before anything is made up.
    planned: Vec<Change>,
}

impl Change {
    pub fn record(&self) -> Value {
        let map = |entries: Vec<(&str, Value)>| Value::map(entries.into_iter().map(|(key, value)| (Text::new(key), value)));
        match self {
            Change::Start { pid, parent, host, name } => map(vec![
                ("pid", Value::Integer(*pid)),
                ("parent", Value::Integer(*parent)),
                ("host", Value::text(host)),
                ("name", Value::text(name)),
            ]),
            Change::Rename { pid, name } => map(vec![("pid", Value::Integer(*pid)), ("name", Value::text(name))]),
            Change::End { pid } => map(vec![("pid", Value::Integer(*pid))]),
        }
    }
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        // Process numbers go on where an earlier demonstration in the same store cannot have been.
        Generator { state: seed, next_pid: (seed % 1_000_000_000_000) as i64, alive: Vec::new(), planned: Vec::new() }
    }

    pub fn next(&mut self) -> Change {
        let change = match self.planned.pop() {
            Some(change) => change,
            None => self.invent(),
        };
        match &change {
            Change::Start { pid, host, .. } => self.alive.push((*pid, host)),
            Change::End { pid } => self.alive.retain(|(other, _)| other != pid),
            Change::Rename { .. } => {}
        }
        change
    }

    fn invent(&mut self) -> Change {
        let crowded = self.alive.len() > ALIVE;
        match self.below(10) {
            0..=2 if !self.alive.is_empty() => {
                let (pid, _) = self.pick();
                Change::Rename { pid, name: self.any(&NAMES) }
            }
            3..=9 if crowded => Change::End { pid: self.alive[0].0 },
            6 if self.alive.len() > 5 => Change::End { pid: self.pick().0 },
            _ if self.below(STORY_EVERY) == 0 => self.story(),
            _ => {
                let host = self.any(&HOSTS);
                let siblings: Vec<i64> = self.alive.iter().filter(|(_, on)| *on == host).map(|(pid, _)| *pid).collect();
                let parent = if siblings.is_empty() { 1 } else { siblings[self.below(siblings.len() as u64) as usize] };
                Change::Start { pid: self.pid(), parent, host, name: self.any(&NAMES) }
            }
        }
    }

    /// A viewer, its shell, the shell's download; later one of them changes or ends.
    fn story(&mut self) -> Change {
        let host = self.any(&HOSTS);
        let (viewer, shell, download) = (self.pid(), self.pid(), self.pid());
        if self.below(3) > 0 {
            let changed = [viewer, shell, download][self.below(3) as usize];
            let change =
                if self.below(2) == 0 { Change::End { pid: changed } } else { Change::Rename { pid: changed, name: "backup" } };
            self.planned.push(change);
            for _ in 0..2 + self.below(6) {
                let pid = self.pid();
                self.planned.push(Change::Start { pid, parent: 1, host: HOSTS[(pid % 4) as usize], name: "cron" });
            }
        }
        self.planned.push(Change::Start { pid: download, parent: shell, host, name: "curl" });
        self.planned.push(Change::Start { pid: shell, parent: viewer, host, name: "sh" });
        Change::Start { pid: viewer, parent: 1, host, name: "viewer" }
    }

    fn pid(&mut self) -> i64 {
        self.next_pid += 1;
        self.next_pid
    }

    fn pick(&mut self) -> (i64, &'static str) {
        let index = self.below(self.alive.len() as u64) as usize;
        self.alive[index]
    }

    fn any(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len() as u64) as usize]
    }

    /// A number from 0 to below `bound`, which is at least 1.
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_story_is_told_and_the_crowd_stays_small() {
        let mut generator = Generator::new(7);
        let (mut downloads, mut ends, mut renames) = (0, 0, 0);
        for _ in 0..20_000 {
            match generator.next() {
                Change::Start { name: "curl", parent, .. } if parent != 1 => downloads += 1,
                Change::Start { .. } => {}
                Change::End { .. } => ends += 1,
                Change::Rename { .. } => renames += 1,
            }
            assert!(generator.alive.len() < ALIVE * 4, "{}", generator.alive.len());
        }
        assert!(downloads > 500 && ends > 1000 && renames > 1000, "{downloads} {ends} {renames}");
    }
}
