//! `weir check`, `weir backup`, `weir restore`: a store as a whole, while no weir works with it. Where the store is, the
//! configuration says, as for the service.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_engine::store::{Copied, back_up, check, restore};

use crate::app::open_store;
use crate::config::StoreSettings;
use crate::error::chain;

/// Reads everything; fails when something is damaged.
pub fn check_store(store: &StoreSettings) -> Result<ExitCode, String> {
    let opened = open_store(store)?;
    let checked = check(&*opened, &mut |what| eprintln!("weir: reading {what}"));
    for damage in &checked.damage {
        println!("{damage}");
    }
    let weir_engine::store::Checked { graphs, chunks, facts, entries, symbols, damage } = &checked;
    let found = match damage.len() {
        0 => "nothing is damaged".to_owned(),
        1 => "1 damage was found; everything not named is sound".to_owned(),
        count => format!("{count} damages were found; everything not named is sound"),
    };
    println!("{graphs} graphs, {facts} facts in {chunks} pages, {entries} entries in the log, {symbols} names: {found}");
    Ok(if damage.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub fn back_up_store(store: &StoreSettings, file: &Path) -> Result<ExitCode, String> {
    let opened = open_store(store)?;
    if !opened.durable() {
        return Err(format!("the store `{}` keeps nothing that could be backed up", opened.kind()));
    }
    let failed = |error: &dyn std::error::Error| format!("cannot write the backup {}: {}", file.display(), chain(error));
    // Under another name until it is whole and on the disk.
    let unfinished = beside(file, "part");
    let write = || {
        let mut out = BufWriter::new(File::create(&unfinished).map_err(|error| failed(&error))?);
        let copied = back_up(&*opened, &mut out).map_err(|error| failed(&error))?;
        let synced = out.into_inner().map_err(|error| failed(&error))?.sync_all();
        synced.and_then(|()| fs::rename(&unfinished, file)).map_err(|error| failed(&error))?;
        Ok(copied)
    };
    let copied = write().inspect_err(|_: &String| drop(fs::remove_file(&unfinished)))?;
    println!("{} in {}", shown(copied), file.display());
    Ok(ExitCode::SUCCESS)
}

pub fn restore_store(store: &StoreSettings, file: &Path) -> Result<ExitCode, String> {
    let Some(path) = store.path() else {
        return Err("nothing can be restored into a store that lives in memory: set store.type and store.filepath".to_owned());
    };
    let is_free = !path.exists() || fs::read_dir(path).is_ok_and(|mut items| items.next().is_none());
    if !is_free {
        return Err(format!("{} is there already: restore into another place (store.filepath)", path.display()));
    }
    let from = File::open(file).map_err(|error| format!("cannot read the backup {}: {error}", file.display()))?;
    // Under another name until it is whole, so that nothing takes half a graph for one.
    let unfinished = beside(path, "restoring");
    let remove = || if unfinished.is_dir() { fs::remove_dir_all(&unfinished) } else { fs::remove_file(&unfinished) };
    let failed = |error: &dyn std::error::Error| format!("cannot restore {}: {}", file.display(), chain(error));
    let read = || {
        if unfinished.exists() {
            remove().map_err(|error| failed(&error))?;
        }
        let opened = open_store(&store.at(unfinished.clone()))?;
        restore(&*opened, &mut BufReader::new(from)).map_err(|error| failed(&error))
    };
    let copied = read().inspect_err(|_| drop(remove()))?;
    // An empty directory gives way; one that has come to be something since does not.
    let _ = fs::remove_dir(path);
    fs::rename(&unfinished, path).map_err(|error| failed(&error))?;
    println!("{} from {} into {}", shown(copied), file.display(), path.display());
    Ok(ExitCode::SUCCESS)
}

fn shown(copied: Copied) -> String {
    let Copied { graphs, chunks, entries, bytes } = copied;
    format!("{graphs} graphs, {chunks} pages, {entries} entries of the log, {:.1} MB", bytes as f64 / 1e6)
}

/// The same path with something behind its name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{ending}"));
    PathBuf::from(name)
}
