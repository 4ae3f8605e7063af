use std::fs;

use weir_model::{Mutations, NodeId, Symbol, Value};

use super::super::conformance::{self, append, entry, read_log};
use super::runs::SMALL_RUN_BYTES_MAX;
use super::tuning::MANIFEST_BYTES_MAX;
use super::*;

fn open(path: &Path) -> RocksDb {
    RocksDb::open(RocksDbOptions::new(path)).unwrap()
}

fn error_of(path: &Path) -> StoreError {
    RocksDb::open(RocksDbOptions::new(path)).err().expect("is refused")
}

/// The files of RocksDB with this extension.
fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    let items = fs::read_dir(path.join("rocks-db")).unwrap().map(|item| item.unwrap().path());
    items.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn conforms() {
    for (write_ahead_log, sync_all_writes) in [(true, false), (true, true), (false, false), (false, true)] {
        conformance::check(&|part| {
            let temporary = tempfile::tempdir().unwrap();
            let options = RocksDbOptions { write_ahead_log, sync_all_writes, ..RocksDbOptions::new(temporary.path()) };
            part(&|| Box::new(RocksDb::open(options.clone()).unwrap()));
        });
    }
}

#[test]
fn one_process_at_a_time() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let error = error_of(temporary.path());
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    drop(store);
    open(temporary.path());
}

/// Also in a data directory that was there, and lets others look into it: a mounted volume, say.
#[test]
fn its_directories_are_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let temporary = tempfile::tempdir().unwrap();
    let may = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let mode = |name: &str| fs::metadata(temporary.path().join(name)).unwrap().permissions().mode() & 0o777;
    may(temporary.path(), 0o755);
    drop(open(temporary.path()));
    assert_eq!((mode("."), mode("rocks-db"), mode("incoming")), (0o755, 0o700, 0o700));
    // Whoever has given others a look at it meant that.
    may(&temporary.path().join("rocks-db"), 0o750);
    drop(open(temporary.path()));
    assert_eq!((mode("rocks-db"), mode("incoming")), (0o750, 0o700));
}

#[test]
fn a_flipped_byte_in_the_write_ahead_log_is_noticed() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let graph = store.create_graph("a", b"").unwrap();
    for n in 0..150 {
        append(&store, &[entry(graph, n * 100, 100)]);
    }
    let [ahead] = &files(temporary.path(), "log")[..] else { panic!("one write-ahead log") };
    let name = ahead.file_name().unwrap();
    let length = fs::metadata(ahead).unwrap().len() as usize;
    assert!(length > 2 * 32_768);
    // All over, at the very end, and in the head of the last block.
    let block = length / 32_768 * 32_768;
    let all_over = (0..length).step_by(length / 30);
    for at in all_over.chain(length - 10..length).chain(block..block + 12) {
        let copy = tempfile::tempdir().unwrap();
        copy_directory(temporary.path(), copy.path());
        flip(&copy.path().join("rocks-db").join(name), at);
        let error = error_of(copy.path());
        assert!(matches!(error, StoreError::Damaged { .. }), "byte {at}: {error}");
        // Looking did not make it worse.
        assert!(matches!(error_of(copy.path()), StoreError::Damaged { .. }));
    }
}

/// What is on the disk while the store is open is what a crash would leave.
fn copy_directory(from: &Path, to: &Path) {
    for item in fs::read_dir(from).unwrap().map(|item| item.unwrap()) {
        let target = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_directory(&item.path(), &target);
        } else {
            fs::copy(item.path(), target).unwrap();
        }
    }
}

/// As if the system had started anew since.
fn change_boot(directory: &Path) {
    flip(&directory.join(reached::FILE), 0);
}

#[test]
fn a_log_that_is_cut_short_is_noticed_unless_power_was_lost() {
    for sync_all_writes in [false, true] {
        let temporary = tempfile::tempdir().unwrap();
        let options = RocksDbOptions { sync_all_writes, ..RocksDbOptions::new(temporary.path()) };
        let store = RocksDb::open(options).unwrap();
        let graph = store.create_graph("a", b"").unwrap();
        for n in 0..20 {
            append(&store, &[entry(graph, n * 100, 100)]);
        }
        let copy = tempfile::tempdir().unwrap();
        copy_directory(temporary.path(), copy.path());
        let [ahead] = &files(copy.path(), "log")[..] else { panic!("one write-ahead log") };
        let length = fs::metadata(ahead).unwrap().len();
        fs::OpenOptions::new().write(true).open(ahead).unwrap().set_len(length - 100).unwrap();
        let read = || RocksDb::open_to_read(RocksDbOptions::new(copy.path())).err();
        for refused in [error_of(copy.path()), read().expect("is refused")] {
            let told = refused.to_string();
            assert!(told.contains("the last 1 of ") && told.contains("remove its file weir-reached"), "{told}");
        }
        change_boot(copy.path());
        if sync_all_writes {
            assert!(error_of(copy.path()).to_string().contains("the last 1 of "));
            fs::remove_file(copy.path().join(reached::FILE)).unwrap();
        }
        let found = read_log(&open(copy.path()), graph, 0).unwrap();
        assert_eq!(found.len(), 19);
    }
}

/// RocksDB deletes what is not in the list, and has an empty store then.
#[test]
fn a_list_of_files_that_is_cut_off_is_noticed_and_nothing_deleted() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let graph = store.create_graph("a", b"").unwrap();
    for n in 0..10 {
        let mut chunks = (0..60u8).map(|n| Ok((Part::Newest, vec![n; 30_000])));
        let progress = Progress { upto: Tick(n), ..Progress::default() };
        store.checkpoint(graph, NewRun { first: Tick(n), upper: Tick(n + 1), chunks: &mut chunks }, &progress).unwrap();
        store.flush(true).unwrap();
    }
    let killed = tempfile::tempdir().unwrap();
    copy_directory(temporary.path(), killed.path());
    drop(store);
    let list = |path: &Path| {
        let current = fs::read_to_string(path.join("rocks-db/CURRENT")).unwrap();
        path.join("rocks-db").join(current.trim())
    };
    for (from, other_boot) in [(temporary.path(), false), (temporary.path(), true), (killed.path(), false)] {
        let bytes = fs::read(list(from)).unwrap();
        for at in (0..bytes.len()).step_by(bytes.len() / 12) {
            for zeros in [false, true] {
                let copy = tempfile::tempdir().unwrap();
                copy_directory(from, copy.path());
                let mut cut = bytes[..at].to_vec();
                cut.resize(if zeros { bytes.len() } else { at }, 0);
                fs::write(list(copy.path()), cut).unwrap();
                if other_boot {
                    change_boot(copy.path());
                }
                let before = files(copy.path(), "sst").len();
                let read = RocksDb::open_to_read(RocksDbOptions::new(copy.path())).err().expect("is refused");
                for refused in [read, error_of(copy.path())] {
                    assert!(matches!(refused, StoreError::Damaged { .. }), "{at}: {refused}");
                }
                assert_eq!(files(copy.path(), "sst").len(), before);
            }
        }
    }
    // One that was written anew, as it is when it has become long.
    drop(open(temporary.path()));
    drop(open(temporary.path()));
}

#[test]
fn a_log_that_is_missing_after_an_end_is_noticed_on_any_machine() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let graph = store.create_graph("a", b"").unwrap();
    append(&store, &[entry(graph, 0, 100)]);
    drop(store);
    let store = open(temporary.path());
    append(&store, &[entry(graph, 100, 100)]);
    store.sync().unwrap();
    let copy = tempfile::tempdir().unwrap();
    copy_directory(temporary.path(), copy.path());
    change_boot(copy.path());
    let [.., newest] = &mut files(copy.path(), "log")[..] else { panic!("no write-ahead log") };
    fs::write(newest, "").unwrap();
    assert!(error_of(copy.path()).to_string().contains("writes are missing"));
}

#[test]
fn a_directory_without_its_write_ahead_log_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let graph = store.create_graph("a", b"").unwrap();
    append(&store, &[entry(graph, 0, 100)]);
    drop(store);
    drop(open(temporary.path()));
    files(temporary.path(), "log").iter().for_each(|log| fs::remove_file(log).unwrap());
    let told = error_of(temporary.path()).to_string();
    assert!(told.contains("what was written last is missing"), "{told}");
}

#[test]
fn pages_of_a_graph_that_is_dropped_meanwhile_take_no_disk() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let graph = store.create_graph("a", b"").unwrap();
    append(&store, &[entry(graph, 0, 1000)]);
    let mut chunks = (0..100u8).map(|n| {
        if n == 50 {
            store.drop_graph(graph).unwrap();
        }
        Ok((Part::Newest, vec![n; 30_000]))
    });
    let run = NewRun { first: Tick(0), upper: Tick(1), chunks: &mut chunks };
    let refused = store.checkpoint(graph, run, &Progress { upto: Tick(1), ..Progress::default() });
    assert!(matches!(refused, Err(StoreError::NoSuchGraph(_))), "{refused:?}");
    let bytes: u64 = files(temporary.path(), "sst").iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(bytes < 100_000, "{bytes} bytes in files");
}

#[test]
fn a_graph_that_is_dropped_takes_no_disk_however_its_pages_lie() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let [stays, goes] = ["a", "b"].map(|name| store.create_graph(name, b"").unwrap());
    for round in 0..6u64 {
        for graph in [stays, goes] {
            // In files of their own, and in those that hold a little of both.
            let count = if graph == goes { 30 + 10 * round } else { 1 };
            let mut random = 7 + round;
            let mut chunks = (0..count).map(|_| {
                let bytes = (0..8_000).map(|_| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    (random >> 56) as u8
                });
                Ok((Part::Newest, bytes.collect::<Vec<u8>>()))
            });
            let run = NewRun { first: Tick(round * 10), upper: Tick(round * 10 + 10), chunks: &mut chunks };
            store.checkpoint(graph, run, &Progress { upto: Tick(round * 10 + 10), ..Progress::default() }).unwrap();
        }
        store.flush(true).unwrap();
    }
    // RocksDB may be about to delete one.
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |metadata| metadata.len());
    let bytes = || -> u64 { files(temporary.path(), "sst").iter().map(size).sum() };
    let before = bytes();
    assert!(before > 2_000_000, "{before}");
    store.drop_graph(goes).unwrap();
    let dropped = Instant::now();
    while bytes() >= 200_000 {
        assert!(dropped.elapsed() < Duration::from_secs(60), "{} of {before}", bytes());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(store.runs(stays).unwrap().len(), 6);
}

#[test]
fn damaged_or_missing_files_are_noticed() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let graph = store.create_graph("a", b"").unwrap();
    append(&store, &[entry(graph, 0, 1000)]);
    let mut chunks = (0..100u8).map(|n| Ok((Part::Newest, vec![n; 30_000])));
    let progress = Progress { upto: Tick(0), ..Progress::default() };
    store.checkpoint(graph, NewRun { first: Tick(0), upper: Tick(1), chunks: &mut chunks }, &progress).unwrap();
    store.flush(true).unwrap();
    let run = store.runs(graph).unwrap()[0].id;
    drop(store);

    let original: Vec<(PathBuf, Vec<u8>)> =
        files(temporary.path(), "sst").into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    assert!(original.len() >= 3);
    let mut noticed = 0;
    for (path, bytes) in &original {
        flip(path, bytes.len() / 3);
        let all = RocksDb::open(RocksDbOptions::new(temporary.path())).and_then(|store| {
            store.read_run(graph, run, Part::Newest, &mut |_| Ok(()))?;
            read_log(&store, graph, 0)?;
            Store::graphs(&store)
        });
        match all {
            Err(StoreError::Damaged { place, .. }) => {
                noticed += 1;
                assert!(!place.is_empty());
            }
            Err(other) => panic!("{other}"),
            // A byte that nobody reads, such as one of the statistics of the file.
            Ok(graphs) => assert_eq!(graphs.len(), 1),
        }
        fs::write(path, bytes).unwrap();
    }
    assert!(noticed >= 2, "{noticed}");
    open(temporary.path()).read_run(graph, run, Part::Newest, &mut |_| Ok(())).unwrap();

    fs::remove_file(&original[0].0).unwrap();
    let error = error_of(temporary.path());
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    fs::remove_file(temporary.path().join("rocks-db/CURRENT")).unwrap();
    let error = error_of(temporary.path());
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

/// RocksDB once took the whole file, because its last key was the end of the range to be freed.
#[test]
fn the_first_entry_after_a_checkpoint_stays() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let graph = store.create_graph("a", b"").unwrap();
    append(&store, &[entry(graph, 10, 5), entry(graph, 15, 5), entry(graph, 20, 5)]);
    store.flush(true).unwrap();
    store.db.compact_range_cf(store.family(LOG), None::<&[u8]>, None::<&[u8]>);
    let progress = Progress { upto: Tick(20), ..Progress::default() };
    let run = NewRun { first: Tick(10), upper: Tick(20), chunks: &mut std::iter::empty() };
    store.checkpoint(graph, run, &progress).unwrap();
    assert_eq!(read_log(&store, graph, 20).unwrap().len(), 1);
}

/// Entries of 10 MB that cannot be packed, as files of RocksDB's first level.
fn log_in_files(store: &RocksDb, graph: GraphId) -> Tick {
    let mut mutations = Mutations::default();
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 32) as u8
    };
    for record in 0..10_000u32 {
        mutations.start_record(record);
        let bytes: Vec<u8> = (0..1_000).map(|_| noise()).collect();
        mutations.set_property(NodeId::new(0, record.into()), Symbol(1), &Value::Bytes(bytes.into()));
    }
    let large = Entry { upper: Tick(10_000), mutations: Arc::new(mutations), ..entry(graph, 0, 1) };
    append(store, std::slice::from_ref(&large));
    store.flush(true).unwrap();
    assert!(store.sizes().unwrap().log > SHORTEN_BYTES_MIN);
    large.upper
}

fn cut(store: &RocksDb, graph: GraphId, upto: Tick) {
    let run = NewRun { first: Tick(0), upper: upto, chunks: &mut std::iter::empty() };
    store.checkpoint(graph, run, &Progress { upto, ..Progress::default() }).unwrap();
}

#[test]
fn a_cut_of_the_log_frees_its_files() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let (graph, other) = (store.create_graph("a", b"").unwrap(), store.create_graph("b", b"").unwrap());
    append(&store, &[entry(other, 0, 10)]);
    let upto = log_in_files(&store, graph);
    append(&store, &[entry(graph, upto.0, 10)]);
    cut(&store, graph, upto);
    let left = store.sizes().unwrap().log;
    assert!(left < SHORTEN_BYTES_MIN / 4, "{left}");
    assert_eq!((read_log(&store, graph, upto.0).unwrap().len(), read_log(&store, other, 0).unwrap().len()), (1, 1));
}

/// What is left of much is not written again and again.
#[test]
fn files_of_the_log_stay_while_most_of_it_is_needed() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let (graph, other) = (store.create_graph("a", b"").unwrap(), store.create_graph("b", b"").unwrap());
    log_in_files(&store, graph);
    append(&store, &[entry(other, 0, 10)]);
    let before = files(temporary.path(), "sst");
    cut(&store, other, Tick(10));
    assert!(before.iter().all(|file| file.exists()));
}

/// It names each file that ever was, which is a megabyte an hour where runs are made and merged all the time.
#[test]
fn the_list_of_files_begins_anew_when_it_is_long() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let length = || {
        let items = fs::read_dir(temporary.path().join("rocks-db")).unwrap().map(|item| item.unwrap());
        let lists = items.filter(|item| item.file_name().to_string_lossy().starts_with("MANIFEST"));
        lists.map(|item| item.metadata().unwrap().len()).sum::<u64>()
    };
    // Each makes a file, of which the list says the first and the last key.
    let long = "a key that is long ".repeat(50);
    let (mut last, mut written) = (length(), 0);
    while written < 2 * MANIFEST_BYTES_MAX as u64 {
        store.put_metadata(&long, b"").unwrap();
        store.flush(true).unwrap();
        let now = length();
        written += now.saturating_sub(last);
        last = now;
        assert!(now < 2 * MANIFEST_BYTES_MAX as u64, "{now}");
    }
}

/// A small run that goes before its keys are in a file leaves a file with the marks of that alone, which RocksDB never looked at
/// again.
#[test]
fn marks_of_what_was_removed_do_not_gather() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    store.loaded(true);
    let graph = store.create_graph("a", b"").unwrap();
    let chunk = |bytes: usize| std::iter::once(Ok((Part::Newest, vec![1; bytes])));
    let checkpoint = |n: u64, bytes: usize| {
        let run = NewRun { first: Tick(n), upper: Tick(n + 1), chunks: &mut chunk(bytes) };
        store.checkpoint(graph, run, &Progress { upto: Tick(n + 1), ..Progress::default() }).unwrap().id
    };
    let stays = checkpoint(0, SMALL_RUN_BYTES_MAX + 1);
    let mut merged = checkpoint(1, 100);
    for n in 2..60 {
        let replaced = [merged, checkpoint(n, 100)];
        let run = NewRun { first: Tick(1), upper: Tick(n + 1), chunks: &mut chunk(SMALL_RUN_BYTES_MAX + 1) };
        merged = store.replace_runs(graph, &replaced, run).unwrap().id;
        store.flush(true).unwrap();
    }
    let live: Vec<RunId> = store.runs(graph).unwrap().iter().map(|run| run.id).collect();
    assert_eq!(live, [stays, merged]);
    live.into_iter().for_each(|run| store.read_run(graph, run, Part::Newest, &mut |_| Ok(())).unwrap());
    let files = store.db.live_files().unwrap();
    let of_pages = files.iter().filter(|file| file.column_family_name == PAGES);
    let empty = of_pages.filter(|file| file.num_entries == file.num_deletions).count();
    // What RocksDB has not looked at for the first time is there for a moment.
    assert!(empty < 10, "{empty} files have no pages");
}

/// Whether a file of RocksDB has these bytes. One that is listed may be gone when it is read.
fn is_in_a_file(path: &Path, bytes: &[u8]) -> bool {
    let mut items = fs::read_dir(path.join("rocks-db")).unwrap();
    items.any(|item| {
        let file = fs::read(item.unwrap().path()).unwrap_or_default();
        file.windows(bytes.len()).any(|part| part == bytes)
    })
}

/// RocksDB had it in files for as long as those were small, and in its write-ahead log.
#[test]
fn what_is_wiped_is_in_no_file() {
    // No part of it comes twice, so that files do not pack it.
    let secret = "0123456789abcdefghijklmnopqrstuvwxyz";
    for is_flushed in [true, false] {
        let temporary = tempfile::tempdir().unwrap();
        let is_there = || is_in_a_file(temporary.path(), secret.as_bytes());
        let store = open(temporary.path());
        let [other, graph] = ["a", "b"].map(|name| store.create_graph(name, b"").unwrap());
        let mut mutations = Mutations::default();
        mutations.set_property(NodeId::new(0, 1), Symbol(1), &Value::text(secret));
        let first = Entry { upper: Tick(10), mutations: Arc::new(mutations), ..entry(graph, 0, 1) };
        append(&store, &[first, entry(graph, 10, 5)]);
        append(&store, &[entry(other, 0, 10)]);
        let chunk = |bytes: &[u8]| std::iter::once(Ok((Part::Newest, bytes.to_vec())));
        let checkpoint = |graph: GraphId, bytes: &[u8], upto: Tick| {
            let run = NewRun { first: Tick(0), upper: Tick(10), chunks: &mut chunk(bytes) };
            store.checkpoint(graph, run, &Progress { upto, ..Progress::default() }).unwrap().id
        };
        let kept = checkpoint(other, b"of the other", Tick(0));
        let replaced = checkpoint(graph, secret.as_bytes(), Tick(10));
        // As when the file with the marks of a run has gone before what they marked.
        let lost = store.begin_run().id;
        store.db.put_cf(store.family(PAGES), page_key(graph, lost, Part::Newest, 0), secret).unwrap();
        if is_flushed {
            store.flush(true).unwrap();
        }
        let run = NewRun { first: Tick(0), upper: Tick(10), chunks: &mut chunk(b"merged") };
        let merged = store.replace_runs(graph, &[replaced], run).unwrap().id;
        assert!(is_there());
        store.wipe(graph).unwrap();
        let wiped = Instant::now();
        while is_there() {
            assert!(wiped.elapsed() < Duration::from_secs(60), "it is still there, flushed before: {is_flushed}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let look = |store: &RocksDb| {
            let entries = [graph, other].map(|graph| read_log(store, graph, 0).unwrap().len());
            assert_eq!(entries, [1, 1]);
            for (graph, run, bytes) in [(other, kept, &b"of the other"[..]), (graph, merged, &b"merged"[..])] {
                assert_eq!(store.chunk(graph, run, Part::Newest, 0).unwrap().as_deref(), Some(bytes));
            }
        };
        look(&store);
        drop(store);
        look(&open(temporary.path()));
        assert!(!is_there());
    }
}

/// RocksDB does not answer whether it could, and the note of what is to be erased went.
#[test]
fn files_that_cannot_be_rewritten_are_not_called_wiped() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let [other, graph] = ["a", "b"].map(|name| store.create_graph(name, b"").unwrap());
    append(&store, &[entry(graph, 0, 10), entry(graph, 10, 5)]);
    append(&store, &[entry(other, 0, 10)]);
    let progress = Progress { upto: Tick(10), ..Progress::default() };
    let run = NewRun { first: Tick(0), upper: Tick(10), chunks: &mut std::iter::empty() };
    store.checkpoint(graph, run, &progress).unwrap();
    store.flush(true).unwrap();
    let all = store.db.live_files().unwrap();
    for file in all.iter().filter(|file| file.column_family_name == LOG) {
        flip(&temporary.path().join("rocks-db").join(file.name.trim_start_matches('/')), 10);
    }
    let error = store.wipe(graph).unwrap_err().to_string();
    assert!(error.contains("what was purged"), "{error}");
}

#[test]
fn pages_that_a_crash_left_incomplete_are_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let graph = store.create_graph("a", b"").unwrap();
    for large in [true, false] {
        let mut chunks = (0..10u8).map(|n| Ok((Part::Newest, vec![n; if large { 1_000_000 } else { 10 }])));
        let mut batch = WriteBatch::default();
        let run = NewRun { first: Tick(0), upper: Tick(1), chunks: &mut chunks };
        // As far as a checkpoint gets before its last write.
        store.write_run(graph, store.begin_run().id, run, &mut batch).unwrap();
    }
    fs::write(store.incoming.join("9-0.sst"), "half a file").unwrap();
    let keys = |store: &RocksDb| {
        let mut iterator = store.db.raw_iterator_cf(store.family(PAGES));
        iterator.seek_to_first();
        iterator.valid()
    };
    assert!(keys(&store));
    drop(store);
    let store = open(temporary.path());
    assert!(!keys(&store));
    assert_eq!(fs::read_dir(&store.incoming).unwrap().count(), 0);
    assert!(store.next_run.load(Ordering::Relaxed) >= 1);
}

#[test]
fn a_value_under_a_wrong_key_is_noticed() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    store.put_metadata("a", b"1").unwrap();
    let value = store.db.get_cf(store.family(META), metadata_key("a")).unwrap().unwrap();
    store.db.put_cf(store.family(META), metadata_key("b"), value).unwrap();
    let error = store.metadata("b").unwrap_err().to_string();
    assert!(error.contains("metadata 'b'") && error.contains("checksum"), "{error}");
}

/// Measured in entries of the log, each on the disk before the next, so that a slow disk or a busy machine slows both.
#[test]
fn graphs_come_and_go_in_a_few_writes() {
    let temporary = tempfile::tempdir().unwrap();
    let store = open(temporary.path());
    let stays = store.create_graph("stays", b"").unwrap();
    let mut writes = std::time::Duration::ZERO;
    let mut graphs = std::time::Duration::ZERO;
    for n in 0..500 {
        let start = std::time::Instant::now();
        append(&store, &[entry(stays, n, 3)]);
        store.sync().unwrap();
        let written = std::time::Instant::now();
        let graph = store.create_graph(&format!("graph{n}"), b"").unwrap();
        append(&store, &[entry(graph, 0, 3)]);
        store.drop_graph(graph).unwrap();
        writes += written - start;
        graphs += written.elapsed();
    }
    let each = graphs.div_duration_f64(writes);
    eprintln!("a graph created and dropped takes as long as {each:.1} writes of {:?}", writes / 500);
    assert!(each < 20.0, "{graphs:?} beside {writes:?}");
}
