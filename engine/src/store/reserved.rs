//! Reserved: what is kept of a standing query among its outputs, under names that none of these has.
//!
//! Each is a `Delivered` like that of an output: a tick and a position, in the log and in each checkpoint, and gone with the
//! query.

/// From which result on those who follow the query may ask for results again.
pub const FOLLOWED: &str = "\u{0}followed";

/// Before which tick what there is makes up the first results, until all outputs have these.
pub const BEGUN: &str = "\u{0}begun";

/// The sum of what came and went in pauses.
pub const PAUSED: &str = "\u{0}paused";

/// The matches that are held until somebody asks for them.
pub const HELD: &str = "\u{0}held";

/// Those that need nothing of the log where their position is empty: there is no sum, nothing is held, and a beginning by itself
/// needs nothing. `FOLLOWED` is not among them: like an output it needs what comes from its tick on, whatever its position.
pub const OVER_WHEN_EMPTY: [&str; 3] = [PAUSED, HELD, BEGUN];

/// Whether it is none of a user's outputs.
pub fn is_reserved(output: &str) -> bool {
    output.starts_with('\0')
}
