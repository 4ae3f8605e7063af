use std::sync::atomic::AtomicI64;

use super::super::conformance::{self, append, entry, read_log};
use super::*;

fn open(path: &Path) -> Result<MapDb, StoreError> {
    MapDb::open(MapDbOptions::new(path))
}

#[test]
fn conforms() {
    conformance::check(&|part| {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("graph.weir");
        part(&|| Box::new(open(&path).unwrap()));
    });
}

#[test]
fn one_process_at_a_time_and_no_foreign_files() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("graph.weir");
    let store = open(&path).unwrap();
    assert!(matches!(open(&path), Err(StoreError::Locked { .. })));
    drop(store);
    open(&path).unwrap();
    let foreign = temporary.path().join("notes.txt");
    std::fs::write(&foreign, "x".repeat(10_000)).unwrap();
    assert!(matches!(open(&foreign), Err(StoreError::ForeignFile { .. })));
    assert_eq!(std::fs::read(&foreign).unwrap(), "x".repeat(10_000).as_bytes());
    let refused = open(&temporary.path().join("a/b")).err().unwrap().to_string();
    assert!(refused.contains("create-parent-dir"), "{refused}");
    assert!(open(temporary.path()).is_err());
}

/// A file whose process ends after so many changes.
#[derive(Debug)]
struct Ending {
    file: FileBackend,
    left: AtomicI64,
}

impl Ending {
    fn change(&self) -> std::io::Result<()> {
        let goes_on = self.left.fetch_sub(1, Ordering::Relaxed) > 0;
        if goes_on { Ok(()) } else { Err(std::io::Error::other("simulated: the process has ended")) }
    }
}

impl StorageBackend for Ending {
    fn len(&self) -> std::io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, length: u64) -> std::io::Result<()> {
        self.change()?;
        self.file.set_len(length)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.change()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.change()?;
        self.file.write(offset, data)
    }
}

/// It was taken for a file of something else from then on.
#[test]
fn one_that_was_only_begun_is_begun_anew() {
    let temporary = tempfile::tempdir().unwrap();
    let mut without_mark = Vec::new();
    for count in 0.. {
        let path = temporary.path().join(format!("{count}.weir"));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let ending = Ending { file: FileBackend::new(file).unwrap(), left: AtomicI64::new(count) };
        let is_whole = MapDb::on(ending).is_ok();
        let bytes = std::fs::read(&path).unwrap();
        if !bytes.is_empty() && !bytes.starts_with(b"redb") {
            without_mark.push(bytes);
        }
        let store = open(&path).unwrap_or_else(|error| panic!("after {count} changes: {error}"));
        store.create_graph("a", b"").unwrap();
        if is_whole {
            break;
        }
    }
    // Long as it is to be, and with the header.
    assert!(without_mark.len() >= 2);
    let path = temporary.path().join("graph.weir");
    for begun in &without_mark {
        std::fs::write(&path, begun).unwrap();
        let file = FileBackend::new(File::options().read(true).write(true).open(&path).unwrap()).unwrap();
        let whole = std::ops::Bound::Unbounded;
        assert!(file.try_lock_range(whole, whole).unwrap());
        assert!(matches!(open(&path), Err(StoreError::Locked { .. })), "somebody is at it");
        drop(file);
        assert!(std::fs::read(&path).unwrap() == *begun);
        // What is something else: by its first bytes, its header, its last byte, its length.
        for at in [0, 12, 20, begun.len() - 1, begun.len()] {
            let mut foreign = begun.clone();
            foreign.resize(foreign.len().max(at + 1), 0);
            foreign[at] = 0x55;
            let is_headed = begun[12..16] != [0; 4];
            if at == 20 && is_headed {
                continue;
            }
            std::fs::write(&path, &foreign).unwrap();
            assert!(matches!(open(&path), Err(StoreError::ForeignFile { .. })), "byte {at}");
            assert!(std::fs::read(&path).unwrap() == foreign);
        }
    }
}

/// They stayed until the next start, and came again each time that it was tried again.
#[test]
fn pages_of_a_run_that_fails_are_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(&temporary.path().join("graph.weir")).unwrap();
    let graph = store.create_graph("a", b"").unwrap();
    for is_merge in [false, true] {
        let mut chunks = (0..20).map(|n| {
            if n < 19 {
                return Ok((Part::Newest, vec![1u8; 1 << 20]));
            }
            assert!(count(&store, PAGES) > 0, "a portion has been written");
            Err(StoreError::Stopped)
        });
        let run = NewRun { first: Tick(0), upper: Tick(10), chunks: &mut chunks };
        let failed = match is_merge {
            true => store.replace_runs(graph, &[], run),
            false => store.checkpoint(graph, run, &Progress { upto: Tick(10), ..Progress::default() }),
        };
        assert!(matches!(failed, Err(StoreError::Stopped)), "{failed:?}");
        store.wait_removed();
        assert_eq!((count(&store, PAGES), store.runs(graph).unwrap().len()), (0, 0));
    }
}

#[test]
fn the_file_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph.weir");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    drop(open(&path).unwrap());
    assert_eq!(mode(&path), 0o600);
    // Whoever has given others a look at it meant that.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    drop(open(&path).unwrap());
    assert_eq!(mode(&path), 0o640);
    let temporary = |path: &Path| MapDb::open(MapDbOptions { temporary: true, ..MapDbOptions::new(path) });
    assert!(temporary(&path).is_err(), "what is there is not taken for a file of its own");
    let path = directory.path().join("temporary");
    let store = temporary(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    drop(store);
    assert!(!path.exists());
}

/// A store with twenty entries of one graph.
fn filled(path: &Path) -> (MapDb, GraphId) {
    let store = open(path).unwrap();
    let graph = store.create_graph("a", b"").unwrap();
    for n in 0..20 {
        append(&store, &[entry(graph, n * 100, 100)]);
    }
    (store, graph)
}

/// What is on the disk while the store is open is what a crash would leave.
#[test]
fn what_was_committed_survives_a_crash() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("graph.weir");
    let (_store, graph) = filled(&path);
    let copy = temporary.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(read_log(&open(&copy).unwrap(), graph, 0).unwrap().len(), 20);
}

fn count(store: &MapDb, table: Definition) -> u64 {
    let table = store.db.begin_read().unwrap().open_table(table).unwrap();
    redb::ReadableTableMetadata::len(&table).unwrap()
}

/// In parts, and others commit between two of them. Nobody sees what is left, and a crash leaves it to the next start.
#[test]
fn what_was_replaced_or_dropped_is_removed_in_parts() {
    const CHUNKS: u64 = 10;
    let temporary = tempfile::tempdir().unwrap();
    let (path, copy) = (temporary.path().join("graph.weir"), temporary.path().join("copy"));
    let mut store = open(&path).unwrap();
    // Nothing is removed here but by the test.
    store.removal = None;
    let [kept, dropped] = ["kept", "dropped"].map(|name| store.create_graph(name, b"").unwrap());
    for graph in [kept, dropped] {
        append(&store, &[entry(graph, 20, 5)]);
        for n in 0..2u64 {
            let mut chunks = (0..CHUNKS).map(|_| Ok((Part::Newest, vec![n as u8; 1 << 20])));
            let run = NewRun { first: Tick(n * 10), upper: Tick(n * 10 + 10), chunks: &mut chunks };
            store.checkpoint(graph, run, &Progress { upto: Tick(n * 10 + 10), ..Progress::default() }).unwrap();
        }
    }
    let old: Vec<RunId> = store.runs(kept).unwrap().iter().map(|run| run.id).collect();
    let mut chunks = std::iter::once(Ok((Part::Newest, b"merged".to_vec())));
    let run = NewRun { first: Tick(0), upper: Tick(20), chunks: &mut chunks };
    let merged = store.replace_runs(kept, &old, run).unwrap();
    store.drop_graph(dropped).unwrap();
    assert_eq!((count(&store, PAGES), count(&store, LOG)), (4 * CHUNKS + 1, 2));
    let look = |store: &MapDb| {
        assert_eq!(store.runs(kept).unwrap(), [merged]);
        assert_eq!(store.chunk(kept, merged.id, Part::Newest, 0).unwrap().as_deref(), Some(&b"merged"[..]));
        assert_eq!(store.chunk(kept, old[0], Part::Newest, CHUNKS - 1).unwrap(), None);
        assert!(store.runs(dropped).unwrap().is_empty() && read_log(store, dropped, 0).unwrap().is_empty());
    };
    look(&store);
    assert!(removal::remove_part(&store.db, &Leftover::of_run(kept, old[0])).unwrap(), "there is more of it");
    let left = count(&store, PAGES);
    assert!((3 * CHUNKS + 1..4 * CHUNKS).contains(&left), "{left}");
    append(&store, &[entry(kept, 25, 5)]);
    look(&store);
    std::fs::copy(&path, &copy).unwrap();
    drop(store);
    for path in [&path, &copy] {
        let store = open(path).unwrap();
        look(&store);
        store.wait_removed();
        look(&store);
        assert_eq!((count(&store, PAGES), count(&store, LOG)), (1, 2));
        assert_eq!(read_log(&store, kept, 0).unwrap().len(), 2);
    }
}

/// Closed in order, or as a crash left it.
#[test]
fn one_that_is_only_read_is_left_as_it_is() {
    let temporary = tempfile::tempdir().unwrap();
    let (path, copy) = (temporary.path().join("graph.weir"), temporary.path().join("copy"));
    let to_read = |path: &Path| MapDb::open_to_read(MapDbOptions::new(path));
    assert!(to_read(&path).is_err() && !path.exists());
    let (store, graph) = filled(&path);
    std::fs::copy(&path, &copy).unwrap();
    assert!(matches!(to_read(&path), Err(StoreError::Locked { .. })));
    drop(store);
    for path in [&path, &copy] {
        let before = std::fs::read(path).unwrap();
        let (store, another) = (to_read(path).unwrap(), to_read(path).unwrap());
        assert_eq!(read_log(&store, graph, 0).unwrap().len(), 20);
        assert_eq!(read_log(&another, graph, 0).unwrap().len(), 20);
        let refused = store.create_graph("b", b"").unwrap_err().to_string();
        assert!(store.read_only() && refused.contains("opened to be read only"), "{refused}");
        assert!(matches!(open(path), Err(StoreError::Locked { .. })));
        drop((store, another));
        assert!(std::fs::read(path).unwrap() == before);
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0x55);
    std::fs::write(&copy, bytes).unwrap();
    // redb says so by a panic where it finds a page that cannot be one.
    let found = std::panic::catch_unwind(|| to_read(&copy).map(drop));
    assert!(!matches!(found, Ok(Ok(()))));
}

#[test]
fn a_flipped_byte_is_noticed_or_of_no_consequence() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("graph.weir");
    let (store, graph) = filled(&path);
    let expected = read_log(&store, graph, 0).unwrap();
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    let copy = temporary.path().join("copy");
    for at in (4096..bytes.len()).step_by(bytes.len() / 60) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        std::fs::write(&copy, changed).unwrap();
        // redb says so by a panic where it finds a page that cannot be one.
        let found = std::panic::catch_unwind(|| open(&copy).and_then(|store| read_log(&store, graph, 0)));
        if let Ok(Ok(found)) = found {
            assert!(
                found.len() == expected.len() && found.iter().zip(&expected).all(|(a, b)| conformance::same(a, b)),
                "byte {at}"
            );
        }
    }
}
