//! Random walks over HTTP: one answered, or those from every node saved to a file.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value as Json;
use warp::http::StatusCode;

use super::reply::{Reply, blocking};
use super::request::{Common, Request};
use crate::app::App;
use crate::clock;
use crate::error::{ApiError, plain};
use crate::queries::fixed::Fixed;
use crate::walk::{self, WalkSettings};
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;

pub async fn walk(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let id = request.node(&app, 0)?;
    let settings = settings(&request)?;
    let common = request.common(&app)?;
    blocking(move || {
        let ask = Fixed::new(&app, &common.graph, common.at);
        settings.check(&ask)?;
        Ok(Reply::Value(Json::from(walk::walk(&ask, &settings, id, 0)?)))
    })
    .await
}

/// Answers when the file is there; the walks follow.
pub async fn save(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let settings = settings(&request)?;
    let common = request.common(&app)?;
    let name = decode(&request.data()?).map_err(ApiError::Decode)??;
    let name = name.unwrap_or_else(|| usual_name(&settings, &common));
    let shown = name.clone();
    blocking(move || {
        settings.check(&Fixed::new(&app, &common.graph, common.at))?;
        let file = make(&app, &name)?;
        let work = move || {
            let ask = Fixed::new(&app, &common.graph, common.at);
            match walk::save(ask, &settings, file) {
                Ok(count) => tracing::info!("{count} walks are saved in {name}"),
                Err(error) => tracing::error!("not all walks are saved in {name}: {error}"),
            }
        };
        let named = std::thread::Builder::new().name("walks".to_owned());
        named.spawn(work).map(drop).map_err(|error| ApiError::Failed(format!("no thread could be started: {error}")))
    })
    .await?;
    Ok(match request.family {
        Family::V1 => Reply::Whole(plain(StatusCode::ACCEPTED, shown)),
        _ => Reply::Accepted,
    })
}

fn settings(request: &Request) -> Result<WalkSettings, ApiError> {
    let mut mistakes = Vec::new();
    let length = request.integer(&["length"], &mut mistakes).unwrap_or(10);
    let count = request.integer(&["count"], &mut mistakes).unwrap_or(5);
    let return_weight = request.number(&["return"], &mut mistakes).unwrap_or(1.0);
    let in_out = request.number(&["in-out", "inOut"], &mut mistakes).unwrap_or(1.0);
    let parallelism = request.integer(&["parallelism"], &mut mistakes).unwrap_or(16);
    if !mistakes.is_empty() {
        return Err(ApiError::Decode(mistakes));
    }
    let wrong = [
        (length < 1, "walk length cannot be less than one."),
        (count < 0, "walk count cannot be less than zero."),
        (return_weight < 0.0, "return parameter cannot be less than zero."),
        (in_out < 0.0, "in-out parameter cannot be less than zero."),
        (parallelism < 1, "parallelism cannot be less than one."),
        (length > i64::from(i32::MAX) || count > i64::from(i32::MAX), "the number is larger than 31 bits."),
    ];
    if let Some((_, reason)) = wrong.iter().find(|(wrong, _)| *wrong) {
        return Err(ApiError::bad(format!("requirement failed: {reason}")));
    }
    Ok(WalkSettings {
        length: length as u32,
        count: count as u32,
        query: request.parameter("query").filter(|query| !query.is_empty()).map(str::to_owned),
        return_weight,
        in_out,
        seed: request.parameter("seed").map(str::to_owned),
    })
}

/// The name of the file, if there is one.
fn decode(body: &Json) -> Result<Result<Option<String>, ApiError>, Vec<String>> {
    let mut mistakes = Mistakes::default();
    let read = Fields::tagged(body, "", &mut mistakes).and_then(|(fields, kind)| match kind {
        "LocalFile" => Some(Ok(fields.text("fileName", &mut mistakes))),
        "S3Bucket" => Some(Err(ApiError::bad("S3Bucket is not in this version of weir; save to a LocalFile"))),
        other => {
            mistakes.at("", format!("No decoder for discriminator '{other}'!"));
            None
        }
    });
    mistakes.or(read)
}

/// `graph-walk-1770091506000_T-6x3-q0-1.0x0.5-_.csv`
fn usual_name(settings: &WalkSettings, common: &Common) -> String {
    let WalkSettings { length, count, query, return_weight, in_out, seed } = settings;
    let now = if common.at_millis.is_none() { "_T" } else { "" };
    let millis = common.at_millis.unwrap_or_else(|| clock::millis(SystemTime::now()) as i64);
    let query = query.as_ref().map_or(0, String::len);
    let seed: String = seed.iter().flat_map(|seed| seed.chars()).filter(|c| c.is_ascii_alphanumeric()).take(64).collect();
    let seed = if seed.is_empty() { "_" } else { &seed };
    format!("graph-walk-{millis}{now}-{length}x{count}-q{query}-{return_weight:?}x{in_out:?}-{seed}.csv")
}

/// A new file in the working directory where that is an allowed one, in the first allowed directory otherwise. Where weir keeps
/// its own data none is made.
fn make(app: &App, name: &str) -> Result<File, ApiError> {
    let refused = || ApiError::bad(format!("Invalid file name: {name}"));
    let mut parts = Path::new(name).components();
    if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) || name.ends_with('/') || name.contains('\0') {
        return Err(refused());
    }
    let here = fs::canonicalize(".").ok();
    let files = app.procedures.files();
    let resolved = app.settings.file_ingest.allowed_directories.iter().filter_map(|path| fs::canonicalize(path).ok());
    let allowed: Vec<PathBuf> = resolved.filter(|path| !files.is_own(path)).collect();
    let directory = allowed.iter().find(|path| Some(*path) == here.as_ref()).or_else(|| allowed.first());
    let directory = directory.ok_or_else(|| {
        ApiError::bad("file-ingest.allowed-directories names no directory to write to; add one without weir's own data")
    })?;
    File::options().write(true).create_new(true).open(directory.join(name)).map_err(|error| {
        tracing::info!("the file {name} cannot be made: {error}");
        match error.kind() {
            io::ErrorKind::AlreadyExists => ApiError::bad(format!("the file '{name}' exists already")),
            _ => refused(),
        }
    })
}
