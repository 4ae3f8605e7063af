//! How RocksDB is set up: its memory, its files, and what each family is written like.

use rocksdb::compaction_filter::Decision;
use rocksdb::{BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType, DBRecoveryMode, LogLevel, Options};
use weir_model::lock::lock;

use super::super::keys::take_log_key;
use super::{Begins, LOG, META, PAGES};
use crate::memory::at_most;

/// Memory for blocks that were read; pages are read in sequence, so more would not help.
const CACHE_BYTES: usize = 64 << 20;

/// What the log gathers in memory before it goes to a file.
const LOG_BUFFER_BYTES: usize = 64 << 20;
/// How many times `LOG_BUFFER_BYTES` the log gathers in memory at most.
const LOG_BUFFERS_MAX: i32 = 4;

/// RocksDB's write-ahead log at most, which bounds what a restart has to read.
const WRITE_AHEAD_BYTES_MAX: u64 = 512 << 20;

/// RocksDB lists each file that comes and goes. The list begins anew when it has this length, or is six times as long as what
/// there is takes.
pub const MANIFEST_BYTES_MAX: usize = 128 << 10;

/// What RocksDB has to say, a line for each file of pages among it, goes into another file after this much. The last two are
/// kept.
const INFO_LOG_BYTES_MAX: usize = 128 << 10;

/// How much RocksDB's threads read and write at once. While the system copies for a thread, it may take no break for anybody
/// else.
const AT_ONCE_BYTES: u64 = 64 << 10;

pub fn families(begins: &Begins) -> [ColumnFamilyDescriptor; 4] {
    let cache = Cache::new_lru_cache(at_most(CACHE_BYTES, 32));
    [
        ColumnFamilyDescriptor::new("default", Options::default()),
        ColumnFamilyDescriptor::new(LOG, log_options(&cache, begins)),
        ColumnFamilyDescriptor::new(PAGES, pages_options(&cache)),
        ColumnFamilyDescriptor::new(META, meta_options(&cache)),
    ]
}

/// `whole`: not without tables that are damaged or missing. What is missing is an error when it is read, otherwise.
pub fn db_options(fresh: bool, whole: bool) -> Options {
    let mut db = Options::default();
    // Only a new directory: files that are lost must not turn into an empty store.
    db.create_if_missing(fresh);
    db.create_missing_column_families(fresh);
    db.set_paranoid_checks(whole);
    // An incomplete write at the very end is what a crash leaves; anything else that is wrong is damage. Of the lengths
    // in the last block of 32 KiB, RocksDB cannot tell the two apart: one that points beyond the end counts as the former.
    db.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    db.set_track_and_verify_wals_in_manifest(true);
    db.set_max_total_wal_size(WRITE_AHEAD_BYTES_MAX);
    db.set_max_background_jobs(2);
    db.set_bytes_per_sync(1 << 20);
    db.set_writable_file_max_buffer_size(AT_ONCE_BYTES);
    db.set_compaction_readahead_size(AT_ONCE_BYTES as usize);
    db.set_max_manifest_file_size(MANIFEST_BYTES_MAX);
    db.set_max_log_file_size(INFO_LOG_BYTES_MAX);
    db.set_keep_log_file_num(2);
    db.set_log_level(LogLevel::Warn);
    db.set_stats_dump_period_sec(0);
    db.set_stats_persist_period_sec(0);
    db
}

fn table_options(cache: &Cache, block_bytes: usize) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_block_size(block_bytes);
    table
}

/// Small entries are not packed, so that files pack them; what is packed already they leave as it is.
fn log_options(cache: &Cache, begins: &Begins) -> Options {
    let mut options = Options::default();
    let begins = begins.clone();
    options.set_compaction_filter("cut", move |_, key: &[u8], _: &[u8]| {
        let begins = lock(&begins);
        let is_cut = take_log_key(key).is_some_and(|(graph, tick)| begins.get(&graph).is_some_and(|begin| tick < *begin));
        if is_cut { Decision::Remove } else { Decision::Keep }
    });
    // A file by itself is moved to the last level as it is.
    options.set_level_zero_file_num_compaction_trigger(1);
    options.set_block_based_table_factory(&table_options(cache, 256 << 10));
    options.set_compression_type(DBCompressionType::Lz4);
    // A file that is rewritten is read, and damage that is met then ends all writes to the store: `loaded` says when it may
    // begin.
    options.set_disable_auto_compactions(true);
    options.set_write_buffer_size(at_most(LOG_BUFFER_BYTES, 32));
    options.set_max_write_buffer_number(LOG_BUFFERS_MAX);
    options
}

/// Chunks are packed already.
pub fn pages_options(cache: &Cache) -> Options {
    let mut options = Options::default();
    options.set_block_based_table_factory(&table_options(cache, 64 << 10));
    options.set_compression_type(DBCompressionType::None);
    // As in the log: a file that is rewritten is read.
    options.set_disable_auto_compactions(true);
    options.set_write_buffer_size(8 << 20);
    options
}

fn meta_options(cache: &Cache) -> Options {
    let mut options = Options::default();
    options.set_block_based_table_factory(&table_options(cache, 16 << 10));
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(4 << 20);
    options
}
