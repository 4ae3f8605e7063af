//! The OpenAPI documents as they are served, and what tools of others make of them: a validator, and a generator of requests
//! that looks for answers that are not described. `tests/services/openapi.sh` installs both; without it a test says so and
//! passes. `WEIR_API_EXAMPLES` is how many random requests each operation
//! gets, after those that try each limit; `make fuzz-api` sets it. Without it there are few.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_api::client::encoded;
use weir_tests::contract;
use weir_tests::service::{Home, Weir};

const DOCUMENTS: [(&str, &str, &str); 4] = [
    ("/docs/openapi.json", "3.0.3", "/api/v1/admin/liveness"),
    ("/docs/openapi-preview.json", "3.1.0", "/api/v2/admin/liveness"),
    ("/api/v2/openapi.json", "3.1.0", "/api/v2/system/liveness"),
    ("/openapi.json", "3.1.0", "/api/v2/system/liveness"),
];

fn weir(home: &Home) -> Weir {
    home.start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1", "-Dweir.outgoing-http.allowed-hosts=[]"])
}

/// Where the tools are; none where they cannot be had.
fn tools() -> Option<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/services/openapi.sh");
    let output = Command::new(script).arg("install").output().expect("a shell");
    let place = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || place.is_empty() {
        eprintln!(
            "**** LEFT OUT: the validators of OpenAPI documents cannot be installed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return None;
    }
    Some(PathBuf::from(place))
}

#[test]
fn documents_and_pages_are_served() {
    let home = Home::new();
    let weir = weir(&home);
    for (path, version, operation) in DOCUMENTS {
        let answer = weir.get(path).expect(200);
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
        let document = answer.json();
        assert_eq!(document["openapi"], version, "{path}");
        assert!(document["paths"][operation]["get"].is_object(), "{path}");
        assert_eq!(document["servers"][0]["url"], "/", "{path}");
        assert!(weir.get(&format!("{path}?relative=true")).expect(200).json().get("servers").is_none(), "{path}");
        weir.get(&format!("{path}?relative=x")).expect(400);
    }
    for path in ["/", "/explorer", "/streams", "/docs", "/v1docs"] {
        let text = weir.get(path).expect(200).text();
        // A browser that finds none asks for one elsewhere.
        assert!(text.contains("<link rel=\"icon\" href=\"data:"), "{path}");
        // Behind a proxy the paths of weir may begin with something: the pages name each from where they are themselves.
        let absolute = text.split("\"/").skip(1).find(|rest| rest.starts_with(char::is_alphanumeric));
        assert_eq!(absolute.map(|rest| &rest[..rest.len().min(40)]), None, "{path} names an absolute path");
    }
    for path in ["/docs", "/v1docs"] {
        let page = weir.get(path).expect(200);
        let policy = page.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
        let text = page.text();
        // It works offline: nothing in it is loaded from elsewhere.
        assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
        for (document, ..) in DOCUMENTS.iter().take(3) {
            assert!(text.contains(document), "{path} does not know {document}");
        }
    }
}

#[test]
fn documents_are_valid() {
    let Some(tools) = tools() else { return };
    let home = Home::new();
    let weir = weir(&home);
    for (path, ..) in DOCUMENTS {
        let name = path.replace('/', "-");
        home.write(&name, weir.get(path).expect(200).body);
        let output =
            Command::new(tools.join("bin/openapi-spec-validator")).arg(home.file(&name)).output().expect("the validator");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{path}: {said}");
    }
}

/// Requests made from the documents: none makes weir fail, and each answer is one that is described.
#[test]
fn examples_fit_their_schemas_and_bodies_have_one() {
    // Anything at all, records of any kind, an empty list, one whose words differ from family to family, and plain texts.
    let without =
        ["put-node-property", "push-records", "load-user-defined", "replace-quick-queries", "import-graph", "back-up-since"];
    let (count, wrong) = contract::wrong_examples(&without);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 90, "only {count} examples");
}

#[test]
fn generated_requests_get_described_answers() {
    let Some(tools) = tools() else { return };
    let home = Home::new();
    let weir = weir(&home);
    let hooks = concat!(env!("CARGO_MANIFEST_DIR"), "/src/request_bodies.py");
    let run = |path: &str| {
        let long = std::env::var("WEIR_API_EXAMPLES").ok();
        let phases = if long.is_some() { "examples,coverage,fuzzing" } else { "examples,fuzzing" };
        let output = Command::new(tools.join("bin/st"))
            .args(["run", &format!("http://{}{path}", weir.address())])
            .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"])
            .args(["--phases", phases, "--max-examples", long.as_deref().unwrap_or("1")])
            .args(["--seed", &std::env::var("WEIR_API_SEED").unwrap_or_else(|_| "1".to_owned())])
            // More workers are more threads of one Python, and hypothesis loses count of its own depth with them.
            .args(["--request-timeout", "30", "--workers", "1", "--generation-database", "none", "--no-color"])
            // They end weir, never end themselves, or wait for a result.
            .args(["--exclude-path-regex", "shutdown|/live/events|/results$"])
            .env("SCHEMATHESIS_HOOKS", hooks)
            .current_dir(home.path())
            .output()
            .expect("the generator of requests");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = said.lines().skip_while(|line| *line != "Test cases:").nth(1).unwrap_or("no count").trim();
        eprintln!("{path}: {count}");
        assert!(output.status.success(), "{path}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let runs: Vec<_> = DOCUMENTS.iter().take(3).map(|(path, ..)| scope.spawn(|| run(path))).collect();
        scope.spawn(|| pause_streams(&weir, &over));
        let ended: Vec<_> = runs.into_iter().map(|run| run.join()).collect();
        over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "at least one document is not kept to");
    });
    weir.get("/api/v1/admin/liveness").expect(204);
}

/// Streams that were begun by chance have no end, and would take all of the machine: those that had enough are paused.
fn pause_streams(weir: &Weir, over: &AtomicBool) {
    const RECORDS: u64 = 10_000;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        let streams = weir.get("/api/v1/ingest").expect(200).json();
        for (name, stream) in streams.as_object().into_iter().flatten() {
            if stream["status"] == "Running" && stream["stats"]["ingestedCount"].as_u64().is_some_and(|count| count > RECORDS) {
                // It may be gone by now.
                weir.put(&format!("/api/v1/ingest/{}/pause", encoded(name)));
            }
        }
    }
}

/// Clients that tools of others make of the documents, in two languages: each compiles, and does the main job.
#[test]
fn generated_clients_do_the_main_job() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/services/clients.sh");
    let install = Command::new(script).arg("install").output().expect("a shell");
    if !install.status.success() {
        let reason = String::from_utf8_lossy(&install.stderr);
        eprintln!(
            "**** LEFT OUT: generators of clients cannot be installed, so no client is generated, compiled or run: {reason}"
        );
        return;
    }
    let home = Home::new();
    let weir = weir(&home);
    for language in ["python", "typescript"] {
        let place = home.file(language);
        std::fs::create_dir(&place).expect("a directory");
        for (family, path) in [("v1", DOCUMENTS[0].0), ("preview", DOCUMENTS[1].0), ("current", DOCUMENTS[2].0)] {
            home.write(&format!("{language}/{family}.json"), weir.get(path).expect(200).body);
        }
        let url = format!("http://{}", weir.address());
        let done = Command::new(script).arg(language).arg(&place).arg(url).output().expect("a shell");
        let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{language}: {said}");
        assert_eq!(said.matches("the job is done").count(), 3, "{language}: {said}");
    }
}
