//! How many files and connections the process may have open: as many as the system lets it, and of these some for the store.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the store, sources and outputs; half of all where there are few.
const RESERVED: usize = 1024;

/// Takes what the system would give anyway when asked. Many systems begin with 1,024 for the sake of programs older than most.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!("the limit of open files stays at {}: {error}", current.unwrap_or_default());
    }
}

/// How many connections there may be, so that they leave the store its files.
pub fn connections(wanted: usize) -> usize {
    let allowed = of(getrlimit(Resource::Nofile).current.and_then(|limit| limit.try_into().ok()));
    if allowed < wanted {
        tracing::warn!(
            "{allowed} connections at a time are taken, not the {wanted} of webserver.connections-max: the system's limit of open files \
             (ulimit -n) has no room for more"
        );
    }
    allowed.min(wanted)
}

/// None: no limit.
fn of(limit: Option<usize>) -> usize {
    limit.map_or(usize::MAX, |limit| limit.saturating_sub(RESERVED).max(limit / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_left_to_the_store() {
        assert_eq!([Some(1024), Some(1500), Some(4096), None].map(of), [512, 750, 3072, usize::MAX]);
        raise();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
