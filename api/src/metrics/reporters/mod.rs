//! Reporters: the figures of `to_json`, handed on from time to time: to files, to the log, to InfluxDB.
//!
//! One that cannot get rid of them says so once and goes on; figures of a moment that passed are not kept.

mod csv;
mod influx;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use self::influx::Influx;
use crate::app::App;
use crate::config;

/// Shorter periods cost more than they tell.
const PERIOD_MIN: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq)]
pub enum ReporterSettings {
    /// For monitors of Java. There are none here; files that ask for it start weir.
    Jmx,
    Csv {
        period: Duration,
        directory: PathBuf,
    },
    Log {
        period: Duration,
        name: String,
    },
    InfluxDb(InfluxSettings),
}

#[derive(Clone, Debug, PartialEq)]
pub struct InfluxSettings {
    pub period: Duration,
    pub database: String,
    /// Scheme, host and port.
    pub url: String,
    /// With its password.
    pub user: Option<(String, String)>,
}

impl ReporterSettings {
    /// An object of the list `metrics-reporters`; the error says what it should be.
    pub fn read(item: &Json) -> Result<ReporterSettings, String> {
        let object = item.as_object().ok_or("should be an object with a `type`: jmx, csv, slf4j or influxdb")?;
        let text = |key: &str| match object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.clone())),
            Some(Json::Number(number)) => Ok(Some(number.to_string())),
            // What stands there may be a password all the same.
            Some(_) => Err(format!("{key} should be a text")),
        };
        let known = |keys: &[&str]| match object.keys().find(|key| *key != "type" && !keys.contains(&key.as_str())) {
            Some(unknown) => Err(format!(
                "there is no `{unknown}` here; there are type{}",
                keys.iter().map(|key| format!(", {key}")).collect::<String>()
            )),
            None => Ok(()),
        };
        let period = || {
            let given = text("period")?.ok_or("`period` is missing, such as '10 s'")?;
            let period = config::duration(&given).filter(|period| *period >= PERIOD_MIN);
            period
                .ok_or_else(|| format!("period is '{given}', and should be a duration of at least {} ms", PERIOD_MIN.as_millis()))
        };
        match text("type")?.as_deref() {
            Some("jmx") => known(&[]).map(|()| ReporterSettings::Jmx),
            Some("csv") => {
                known(&["period", "log-directory"])?;
                let directory = text("log-directory")?.ok_or("`log-directory` is missing")?;
                Ok(ReporterSettings::Csv { period: period()?, directory: directory.into() })
            }
            Some("slf4j") => {
                known(&["period", "logger-name"])?;
                let name = text("logger-name")?.unwrap_or_else(|| "metrics".to_owned());
                Ok(ReporterSettings::Log { period: period()?, name })
            }
            Some("influxdb") => {
                known(&["period", "database", "scheme", "host", "port", "user", "password"])?;
                let or = |key: &str, default: &str| text(key).map(|given| given.unwrap_or_else(|| default.to_owned()));
                let scheme = or("scheme", "http")?;
                if !["http", "https"].contains(&scheme.as_str()) {
                    return Err(format!("scheme is '{scheme}', and should be http or https"));
                }
                let port = or("port", "8086")?;
                let port: u16 = port.parse().map_err(|_| format!("port is '{port}', and should be a number up to 65535"))?;
                let user = text("user")?.map(|user| Ok::<_, String>((user, or("password", "")?))).transpose()?;
                let url = format!("{scheme}://{}:{port}", or("host", "localhost")?);
                Ok(ReporterSettings::InfluxDb(InfluxSettings {
                    period: period()?,
                    database: or("database", "metrics")?,
                    url,
                    user,
                }))
            }
            Some(other) => Err(format!("there is no reporter '{other}'; there are jmx, csv, slf4j and influxdb")),
            None => Err("`type` is missing: jmx, csv, slf4j or influxdb".to_owned()),
        }
    }

    /// As configurations name it.
    pub fn kind(&self) -> &'static str {
        match self {
            ReporterSettings::Jmx => "jmx",
            ReporterSettings::Csv { .. } => "csv",
            ReporterSettings::Log { .. } => "slf4j",
            ReporterSettings::InfluxDb(_) => "influxdb",
        }
    }
}

/// Starts those of the configuration. They end with weir.
pub fn start(app: &Arc<App>) {
    for settings in app.settings.reporters.clone() {
        tokio::spawn(run(app.clone(), settings));
    }
}

async fn run(app: Arc<App>, settings: ReporterSettings) {
    let kind = settings.kind();
    let period = match &settings {
        ReporterSettings::Jmx => {
            return tracing::warn!(
                "the reporter jmx is without effect: there is no Java here; /metrics has the figures for Prometheus"
            );
        }
        ReporterSettings::Csv { period, .. } | ReporterSettings::Log { period, .. } => *period,
        ReporterSettings::InfluxDb(influx) => influx.period,
    };
    let mut influx = match settings.clone() {
        ReporterSettings::InfluxDb(settings) => match Influx::new(settings) {
            Ok(influx) => Some(influx),
            Err(reason) => return tracing::error!("the reporter {kind} cannot begin: {reason}"),
        },
        _ => None,
    };
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first is at once, when there is nothing to tell.
    ticks.tick().await;
    let stopped = app.stopped();
    tokio::pin!(stopped);
    let mut failing = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut stopped => return,
        }
        let reported = report(&app, &settings, influx.as_mut()).await;
        match (&reported, failing) {
            (Err(reason), false) => tracing::warn!("the reporter {kind} cannot hand its figures on, and tries again: {reason}"),
            (Ok(()), true) => tracing::info!("the reporter {kind} hands its figures on again"),
            _ => {}
        }
        failing = reported.is_err();
    }
}

async fn report(app: &Arc<App>, settings: &ReporterSettings, influx: Option<&mut Influx>) -> Result<(), String> {
    let read = {
        let app = app.clone();
        tokio::task::spawn_blocking(move || super::to_json(&app))
    };
    let figures = read.await.map_err(|error| format!("a task failed: {error}"))?;
    match (settings, influx) {
        (ReporterSettings::Csv { directory, .. }, _) => {
            let directory = directory.clone();
            let write = tokio::task::spawn_blocking(move || csv::write(&directory, &figures));
            write.await.map_err(|error| format!("a task failed: {error}"))?
        }
        (ReporterSettings::Log { name, .. }, _) => {
            log(name, &figures);
            Ok(())
        }
        (_, Some(influx)) => influx.write(&figures).await,
        _ => Ok(()),
    }
}

/// One line a figure, as loggers have it.
fn log(logger: &str, figures: &Json) {
    for (kind, name, fields) in each(figures) {
        let shown: Vec<String> = fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
        tracing::info!(target: "metrics", "{logger}: type={}, name={name}, {}", kind.to_uppercase(), shown.join(", "));
    }
}

/// The kind of each figure, its name, and its numbers.
fn each(figures: &Json) -> impl Iterator<Item = (&'static str, &str, Vec<(&str, &Json)>)> {
    ["counter", "gauge", "timer"].into_iter().flat_map(move |kind| {
        let all = figures[format!("{kind}s").as_str()].as_array().into_iter().flatten();
        all.filter_map(move |figure| {
            let name = figure["name"].as_str()?;
            let fields = figure.as_object()?.iter().filter(|(field, _)| *field != "name");
            Some((kind, name, fields.map(|(field, value)| (field.as_str(), value)).collect()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reporters_are_read_and_mistakes_are_told() {
        let read = |item: Json| ReporterSettings::read(&item);
        assert_eq!(read(json!({"type": "jmx"})), Ok(ReporterSettings::Jmx));
        let second = Duration::from_secs(1);
        assert_eq!(
            read(json!({"type": "csv", "period": "1 s", "log-directory": "/x"})),
            Ok(ReporterSettings::Csv { period: second, directory: "/x".into() })
        );
        assert_eq!(
            read(json!({"type": "slf4j", "period": 1000})),
            Ok(ReporterSettings::Log { period: second, name: "metrics".into() })
        );
        let influx =
            InfluxSettings { period: second, database: "metrics".into(), url: "http://localhost:8086".into(), user: None };
        assert_eq!(read(json!({"type": "influxdb", "period": "1s"})), Ok(ReporterSettings::InfluxDb(influx)));
        for (item, expected) in [
            (json!(1), "an object with a `type`"),
            (json!({}), "`type` is missing"),
            (json!({"type": "graphite"}), "no reporter 'graphite'"),
            (json!({"type": "csv", "period": "1 s"}), "`log-directory` is missing"),
            (json!({"type": "csv", "log-directory": "x"}), "`period` is missing"),
            (json!({"type": "slf4j", "period": "1 ms"}), "at least 100 ms"),
            (json!({"type": "slf4j", "perod": "1 s"}), "there is no `perod` here; there are type, period, logger-name"),
            (json!({"type": "influxdb", "period": "1 s", "port": 70000}), "port is '70000'"),
            (json!({"type": "influxdb", "period": "1 s", "scheme": "ftp"}), "scheme is 'ftp'"),
            (json!({"type": "influxdb", "period": "1 s", "user": "u", "password": ["hush"]}), "password should be a text"),
        ] {
            let reason = read(item.clone()).expect_err("should have been refused");
            assert!(reason.contains(expected), "{item}: {reason}");
            assert!(!reason.contains("hush"), "{item}: {reason}");
        }
    }
}
