//! The openCypher TCK: scenarios in feature files, as data, and what runs one.
//!
//!     file ─ gherkin ─> raw steps, examples filled in ─ step ─> Step ─ runner ─> passes, or why not ─ differences ─> surprises
//!                                                   literal ─> the values its tables expect
//!                                                             effects ─> what a query changed
//!
//! The files are not part of the project: `folder` says where they are, if anywhere.

pub mod differences;
pub mod effects;
pub mod gherkin;
pub mod literal;
pub mod runner;
pub mod step;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use literal::Literal;
pub use step::Step;

/// `WEIR_TCK_DIR`, or the folder beside the clone. None, said loudly, where there is neither.
pub fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("WEIR_TCK_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/tck"),
    };
    if folder.join("features").is_dir() {
        return Some(folder);
    }
    eprintln!("LEFT OUT: the openCypher TCK is not in {}; WEIR_TCK_DIR names another folder", folder.display());
    None
}

/// Every scenario, outlines once for each row of their examples, in the order of the files' names.
pub fn scenarios(folder: &Path) -> io::Result<Vec<Scenario>> {
    let mut files = Vec::new();
    feature_files(&folder.join("features"), &mut files)?;
    files.sort();
    let mut scenarios = Vec::new();
    for file in files {
        let name = file.strip_prefix(folder.join("features")).unwrap_or(&file).display().to_string();
        let text = fs::read_to_string(&file)?;
        let wrong = |error: String| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}"));
        for raw in gherkin::parse(&text).map_err(wrong)? {
            let steps = raw.steps.iter().map(Step::read).collect::<Result<_, _>>().map_err(wrong)?;
            scenarios.push(Scenario { file: name.clone(), name: raw.name, example: raw.example, tags: raw.tags, steps });
        }
    }
    Ok(scenarios)
}

#[derive(Clone, Debug)]
pub struct Scenario {
    /// Below `features/`.
    pub file: String,
    /// As written: `[3] Return two nodes`.
    pub name: String,
    /// Which row of the examples this is, counted from 1 over all tables of the outline; None for a plain scenario.
    pub example: Option<usize>,
    pub tags: Vec<String>,
    pub steps: Vec<Step>,
}

fn feature_files(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            feature_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "feature") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_scenario_of_the_kit_is_understood() {
        let Some(folder) = folder() else { return };
        let scenarios = scenarios(&folder).expect("every file, step and value is understood");
        assert!(scenarios.len() > 1_000, "only {} scenarios", scenarios.len());
        let names: HashSet<_> = scenarios.iter().map(|s| (&s.file, &s.name, s.example)).collect();
        assert_eq!(names.len(), scenarios.len(), "a file, a name and an example name one scenario");
        for scenario in &scenarios {
            let executes = scenario.steps.iter().filter(|step| matches!(step, Step::Execute(_))).count();
            assert_eq!(executes, 1, "{} {}", scenario.file, scenario.name);
            let expects =
                |step: &Step| matches!(step, Step::Rows { .. } | Step::NoRows | Step::Raised { .. } | Step::SideEffects(_));
            assert!(scenario.steps.iter().any(expects), "{} {} expects nothing", scenario.file, scenario.name);
        }
        eprintln!("{} scenarios read", scenarios.len());
    }
}
