//! Since: which nodes have changed since a past moment. All others are what they were then, so that a look through the past
//! finds them where the present does, by its labels and its indexes, and reads of the pages only what became different.

use rustc_hash::FxHashSet;
use weir_model::{NodeId, Tick};

use super::run::{Cursor, Piece, Shelf, Trouble};

pub struct Since {
    /// The moment.
    pub at: Tick,
    /// How far it is known what changed after `at`.
    pub upto: Tick,
    changed: FxHashSet<NodeId>,
    /// The nodes of `changed`, in the order of ids.
    sorted: Vec<NodeId>,
}

impl Since {
    /// Of nodes in pieces that hold everything up to `upto`: those with a version later than `at`. None where these are too many.
    /// What is known already of a part of that time is not looked for again.
    pub fn find(
        shelf: &Shelf,
        pieces: &[Piece],
        (at, upto): (Tick, Tick),
        known: Option<&Since>,
        most: usize,
    ) -> Result<Option<Since>, Trouble> {
        let (mut changed, from) = known.map_or_else(|| (FxHashSet::default(), at), |known| (known.changed.clone(), known.upto));
        for piece in pieces.iter().filter(|piece| piece.run.upper > from.next()) {
            let mut cursor = Cursor::seek(shelf, piece.clone(), NodeId::new(0, 0))?;
            while let Some((chunk, place)) = cursor.at() {
                let segment = chunk.segment();
                if chunk.facts(place).iter().any(|fact| segment.time(fact) > from.0) {
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
        Ok(Some(Since { at, upto, changed, sorted }))
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.changed.contains(&node)
    }

    pub fn changed(&self) -> &[NodeId] {
        &self.sorted
    }
}
