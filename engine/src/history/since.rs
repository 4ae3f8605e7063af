//! Since: which nodes have changed since a past moment. All others are what they were then, so that a look through the past
//! finds them where the present does, by its labels and its indexes, and reads of the pages only what became different.

use rustc_hash::FxHashSet;
use weir_model::NodeId;

use super::run::{Cursor, Piece, Shelf, Trouble};

pub struct Since {
    changed: FxHashSet<NodeId>,
    /// The same, in the order of ids.
    sorted: Vec<NodeId>,
}

impl Since {
    /// Of nodes in pieces that hold everything up to now: those with a version later than `at`. None where these are too many.
    pub fn find(shelf: &Shelf, pieces: &[Piece], at: u64, most: usize) -> Result<Option<Since>, Trouble> {
        let mut changed = FxHashSet::default();
        for piece in pieces.iter().filter(|piece| piece.run.upper.0 > at.saturating_add(1)) {
            let mut cursor = Cursor::seek(shelf, piece.clone(), NodeId::new(0, 0))?;
            while let Some((chunk, place)) = cursor.at() {
                let segment = chunk.segment();
                if chunk.facts(place).iter().any(|fact| segment.time(fact) > at) {
                    changed.insert(chunk.ids()[place]);
                    if changed.len() > most {
                        return Ok(None);
                    }
                }
                cursor.advance(shelf)?;
            }
        }
        let mut sorted: Vec<NodeId> = changed.iter().copied().collect();
        sorted.sort_unstable();
        Ok(Some(Since { changed, sorted }))
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.changed.contains(&node)
    }

    pub fn changed(&self) -> &[NodeId] {
        &self.sorted
    }
}
