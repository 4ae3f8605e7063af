//! Logins: against a small provider, which signs whatever a test wants, and against Keycloak. Who is let in and what they may,
//! browsers that log in and pages of others, what ends with a login, and the command line.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_api::routes::{Method, ROUTES, Route, Takes};
use weir_api::wire::family::Family;
use weir_tests::client::{self, Answer};
use weir_tests::openid::{CLIENT, Provider, SECRET, USERS, bearer, cookies, issuer, location, path_at, text, weir_of};
use weir_tests::service::{Home, Weir, binary, wait_until};
use weir_tests::socket::{HANDSHAKE, Socket};

const LEFT_OUT: &str = "logins";
const LEFT_OUT_KEYCLOAK: &str = "logins at Keycloak";

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(90);

const ME: &str = "/api/v2/auth/me";
const LOGIN: &str = "/api/v2/auth/login";
const LOGOUT: &str = "/api/v2/auth/logout";
const QUERY_V1: &str = "/api/v1/query/cypher";
const QUERY_V2: &str = "/api/v2/graph/quine/cypher:query";
const PAGE: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");

/// A row's path with names in it that nothing has.
fn path(route: &Route) -> String {
    let parts = route.path.split('/').map(|part| match part.split_once('}') {
        Some(("{graphName", _)) => "quine".to_owned(),
        Some(("{id", verb)) => format!("00000000-0000-0000-0000-000000000001{verb}"),
        Some((_, verb)) => format!("nobody{verb}"),
        None => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The head of an answer, which may have no end: the status, and the rest as text.
fn head(weir: &Weir, method: &str, target: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut stream = client::open(weir.address(), method, target, headers, b"").expect("a connection");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default(), head)
}

/// The headers of a row's request besides the credential: a handshake for web sockets.
fn asking(route: &Route) -> Vec<(&'static str, &'static str)> {
    match route.is_socket() {
        true => HANDSHAKE.to_vec(),
        false if route.takes == Takes::Nothing => Vec::new(),
        false => vec![("Content-Type", "application/json")],
    }
}

fn get(weir: &Weir, target: &str, token: &str) -> Answer {
    weir.send("GET", target, &[("Authorization", &bearer(token))], b"")
}

fn post(weir: &Weir, target: &str, token: &str, body: &Json) -> Answer {
    let headers = [("Authorization", bearer(token)), ("Content-Type", "application/json".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    weir.send("POST", target, &headers, body.to_string().as_bytes())
}

fn query(weir: &Weir, token: &str, query: &str) -> Answer {
    post(weir, QUERY_V1, token, &json!({"text": query}))
}

/// What a token must say at least, for somebody with these roles.
fn claims(roles: &[&str]) -> Json {
    json!({"sub": "ann", "aud": "weir", "typ": "Bearer", "roles": roles})
}

fn with(mut claims: Json, name: &str, value: Json) -> Json {
    claims[name] = value;
    claims
}

/// Neither what weir is known by nor what anybody asks with.
fn assert_hidden(weir: &Weir, secrets: &[&str]) {
    let log = weir.log();
    for secret in secrets.iter().chain(&[SECRET]) {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
}

/// What an error says, as each family has it.
fn refused(answer: &Answer, family: Family, status: u16, word: &str) -> Result<(), String> {
    let body: Json = serde_json::from_slice(&answer.body).unwrap_or_default();
    let fine = match family {
        Family::V1 => body[0].is_string(),
        _ => body["error"]["status"] == word && body["error"]["code"] == status && body["errors"][0]["type"] == "ApiError",
    };
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    let is_told = answer.status == status && fine && challenge.starts_with("Bearer realm=\"weir\"");
    if is_told { Ok(()) } else { Err(format!("{} {:?}", answer.shown(), answer.header("www-authenticate"))) }
}

#[test]
fn nothing_but_probes_documents_and_the_way_in_is_answered_without_a_credential() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &[]);
    let nobody = bearer(&provider.token("nobody"));
    let mut wrong = Vec::new();
    for route in ROUTES {
        let (method, path, asking) = (route.method.as_str(), path(route), asking(route));
        let needs = route.permission.name();
        let open = ["admin::liveness", "admin::readiness", "auth::log_in", "auth::callback", "auth::log_out"]
            .contains(&route.name)
            || route.name.starts_with("documents::openapi");
        assert_eq!(needs == "open", open, "{method} {path}");
        if open {
            let (status, _) = head(&weir, method, &path, &asking);
            if matches!(status, 401 | 500..) {
                wrong.push(format!("{method} {path}: {status}, though it is open"));
            }
            continue;
        }
        let not_there = weir.send(method, &path, &asking, b"");
        wrong.extend(
            refused(&not_there, route.family(), 401, "UNAUTHENTICATED").err().map(|how| format!("{method} {path}: {how}")),
        );
        let bad = weir.send(method, &path, &[asking.as_slice(), &[("Authorization", "Bearer a.b.c")]].concat(), b"");
        wrong.extend(refused(&bad, route.family(), 401, "UNAUTHENTICATED").err().map(|how| format!("{method} {path}: {how}")));
        // Somebody, who may nothing.
        let headers = [asking.as_slice(), &[("Authorization", nobody.as_str())]].concat();
        if needs == "login" {
            let (status, _) = head(&weir, method, &path, &headers);
            if matches!(status, 401 | 403 | 500..) {
                wrong.push(format!("{method} {path}: {status} for somebody without roles"));
            }
        } else {
            let answer = weir.send(method, &path, &headers, b"");
            let how = refused(&answer, route.family(), 403, "PERMISSION_DENIED").err();
            wrong.extend(how.map(|how| format!("{method} {path}: {how}")));
            if !answer.text().contains(needs) {
                wrong.push(format!("{method} {path}: does not say that {needs} is needed: {}", answer.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    for path in ["/", "/explorer", "/docs", "/metrics"] {
        assert_eq!(weir.send("HEAD", path, &[], b"").status, 401, "{path}");
    }
    // Another way to write a path leads to the same row.
    for path in ["/api/v1/%61dmin/config", "/%6detrics", "/api/v2/graph/quine/cypher%3Aquery"] {
        let answer = weir.get(path);
        assert!(matches!(answer.status, 401 | 404 | 405), "{path}: {}", answer.shown());
    }
    assert_eq!(weir.get("/api/v1/%61dmin/config").status, 401);
    weir.get("/api/v1/nothing").expect(404);
    let document = weir.get("/api/v2/openapi.json").expect(200).json();
    assert_eq!(document["security"], json!([{"bearer": []}, {"session": []}]));
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
}

#[test]
fn each_role_may_what_the_table_says_on_every_row() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &[]);
    let anybody = provider.token("nobody");
    let roles = get(&weir, "/api/v2/admin/roles", &anybody).expect(200).json()["content"].clone();
    assert_eq!(roles.as_array().map(Vec::len), Some(6));
    let mut wrong = Vec::new();
    for (user, role) in USERS {
        let token = provider.token(user);
        let me = get(&weir, ME, &token).expect(200).json()["content"].clone();
        assert_eq!((&me["roles"], &me["name"]), (&json!([role]), &json!(user)), "{me}");
        let rights = roles.as_array().into_iter().flatten().find(|rights| rights["name"] == role).expect("the role");
        assert_eq!(me["permissions"], rights["permissions"]);
        let held: Vec<&str> = me["permissions"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let credential = bearer(&token);
        for route in ROUTES.iter().filter(|route| route.permission.name() != "open") {
            let needs = route.permission.name();
            let may = needs == "login" || held.contains(&needs);
            // It would end before the others are tried.
            if may && route.name == "admin::shutdown" {
                continue;
            }
            let headers = [asking(route).as_slice(), &[("Authorization", credential.as_str())]].concat();
            let (status, _) = head(&weir, route.method.as_str(), &path(route), &headers);
            let is_let_in = !matches!(status, 0 | 401 | 403);
            if is_let_in != may {
                wrong.push(format!("{role} {} {} ({needs}): {status}", route.method, route.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    let machine = provider.machine();
    assert_eq!(get(&weir, ME, &machine).expect(200).json()["content"]["roles"], json!(["DataEngineer"]));
    get(&weir, "/api/v2/graph/quine/ingests", &machine).expect(200);
    get(&weir, "/api/v1/admin/config", &machine).expect(403);
    // Who may end it does.
    post(&weir, "/api/v2/system:shutdown", &provider.token("analyst"), &json!({})).expect(403);
    post(&weir, "/api/v2/system:shutdown", &provider.token("administrator"), &json!({})).expect(202);
    let (status, _) = weir.wait_end(PATIENCE);
    assert!(status.success());
}

#[test]
fn tokens_that_do_not_hold_are_refused_with_the_reason() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &[]);
    let analyst = || claims(&["Analyst"]);
    let fine = provider.signed(analyst(), 300);
    get(&weir, ME, &fine).expect(200);
    get(&weir, ME, &provider.signed(with(analyst(), "aud", json!(["account", "weir"])), 300)).expect(200);
    let foreign = provider.grant(&[
        ("grant_type", "password"),
        ("client_id", "other"),
        ("client_secret", "other-secret"),
        ("username", "analyst"),
        ("password", "analyst"),
    ]);
    let foreign = text(&foreign.expect(200).json()["access_token"]);
    let parts: Vec<&str> = fine.split('.').collect();
    // {"alg":"none"} and {"alg":"HS256","kid":…} with what stands in the token.
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", parts[1]);
    let shared = format!("eyJhbGciOiJIUzI1NiJ9.{}.{}", parts[1], parts[2]);
    let other = provider.signed(claims(&["SuperAdmin"]), 300);
    let mixed = format!("{}.{}.{}", parts[0], other.split('.').nth(1).unwrap_or_default(), parts[2]);
    let cases = [
        (provider.signed(analyst(), -60), "expired"),
        (provider.signed(with(analyst(), "nbf", json!(4_000_000_000_u64)), 300), "not valid yet"),
        (provider.signed(with(analyst(), "aud", json!("account")), 300), "another audience"),
        (foreign, "another audience"),
        (provider.signed(with(analyst(), "iss", json!("http://127.0.0.1:9/realms/weir")), 300), "another issuer"),
        (provider.signed(with(analyst(), "typ", json!("ID")), 300), "of a kind that is not for this"),
        (text(&provider.tokens("analyst")["refresh_token"]), "cannot be read"),
        (unsigned, "signed in a way that is not taken"),
        (shared, "signed in a way that is not taken"),
        (mixed, "signature of the token is wrong"),
        ("x".repeat(40_000), "longer than"),
        (String::new(), "cannot be read"),
    ];
    for (token, reason) in &cases {
        for (target, family) in [(ME, Family::Preview), ("/api/v1/admin/build-info", Family::V1)] {
            let answer = get(&weir, target, token);
            assert_eq!(refused(&answer, family, 401, "UNAUTHENTICATED"), Ok(()));
            assert!(answer.text().contains(reason), "{reason}: {}", answer.shown());
        }
    }
    let basic = weir.send("GET", ME, &[("Authorization", "Basic YTpi")], b"").expect(401);
    assert!(basic.text().contains("only Bearer"), "{}", basic.text());
    // An expired one is refused also with a session beside it, and roles nobody knows give nothing.
    let unknown = provider.signed(claims(&["Root", "superadmin", "Analyst "]), 300);
    assert_eq!(get(&weir, ME, &unknown).expect(200).json()["content"]["permissions"], json!([]));
    let tokens: Vec<&str> = cases.iter().map(|(token, _)| token.as_str()).filter(|token| token.len() > 20).collect();
    assert_hidden(&weir, &tokens);
}

#[test]
fn without_an_audience_no_bearer_token_is_taken() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let home = Home::new();
    let issuer = format!("-Dweir.auth.oidc.issuer={}", provider.issuer());
    let weir = home.start(&["-Dweir.store.type=in-memory", &issuer, "-Dweir.auth.oidc.client-id=weir"]);
    let answer = get(&weir, ME, &provider.token("superadmin")).expect(401);
    assert!(answer.text().contains("auth.oidc.audience"), "{}", answer.text());
}

#[test]
fn a_new_key_is_fetched_when_it_comes_and_not_for_whatever_comes() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &[]);
    let old = provider.token("analyst");
    get(&weir, ME, &old).expect(200);
    provider.rotate();
    let new = provider.token("analyst");
    // Not before some seconds have passed since the start.
    wait_until("the new key is known", PATIENCE, || get(&weir, ME, &new).status == 200);
    let answer = get(&weir, ME, &old).expect(401);
    assert!(answer.text().contains("not one of the provider"), "{}", answer.text());
    // Keys that nobody has: the provider is left alone.
    let (before, began) = (provider.asked(), Instant::now());
    for _ in 0..300 {
        get(&weir, ME, &old).expect(401);
    }
    let (asked, most) = (provider.asked() - before, began.elapsed().as_secs() / 10 + 1);
    assert!(asked <= most, "{asked} times in {:?}", began.elapsed());
}

#[test]
fn a_start_does_not_wait_for_the_provider() {
    // A port that nobody has, and the provider gets later.
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let token = provider.token("architect");
    provider.server.kill();
    let weir = weir_of(&issuer(provider.server.port), &Home::new(), &[]);
    weir.get("/api/v2/admin/liveness").expect(204);
    weir.get("/api/v2/admin/readiness").expect(204);
    weir.get(ME).expect(401);
    for (target, is_v1) in [(ME, false), ("/api/v1/admin/build-info", true)] {
        let answer = get(&weir, target, &token).expect(503);
        assert!(answer.header("retry-after").is_some() && answer.text().contains("no keys from"), "{}", answer.shown());
        assert_eq!(answer.json().is_array(), is_v1);
    }
    weir.send("GET", LOGIN, &[PAGE], b"").expect(503);
    provider.server.run().expect("it starts again");
    wait_until("its keys are known", PATIENCE, || get(&weir, ME, &provider.token("architect")).status == 200);
    // Its keys are known: that it is away again is nothing to who has a token.
    let token = provider.token("architect");
    get(&weir, ME, &token).expect(200);
    provider.server.kill();
    get(&weir, ME, &token).expect(200);
    query(&weir, &token, "CREATE (n:Here) RETURN 1").expect(200);
    assert_hidden(&weir, &[&token]);
}

#[test]
fn a_provider_that_never_answers_holds_nobody_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let issuer = format!("http://{}/realms/weir", silent.local_addr().expect("an address"));
    let weir = weir_of(&issuer, &Home::new(), &[]);
    let began = Instant::now();
    get(&weir, ME, "a.b.c").expect(503);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    weir.get("/api/v2/admin/readiness").expect(204);
    weir.stop();
}

/// A browser logs in, from a page of weir's to where that leads. Gives the cookie of its session.
fn log_in(provider: &Provider, weir: &Weir, user: &str, page: &str) -> (String, Answer) {
    let begun = weir.send("GET", page, &[PAGE], b"");
    let login = location(&begun);
    assert!(login.starts_with("api/v2/auth/login?returnTo="), "{login}");
    let sent = weir.send("GET", &format!("/{login}"), &[PAGE], b"");
    let (there, kept) = (location(&sent), cookies(&sent));
    assert!(there.contains("code_challenge_method=S256") && there.contains("&state=") && there.contains("&nonce="), "{there}");
    let back = location(&provider.visit("GET", &format!("{there}&login_hint={user}"), &[], ""));
    let ended = weir.send("GET", path_at(weir, &back), &[("Cookie", &kept)], b"");
    (cookies(&ended), ended)
}

#[test]
fn a_browser_logs_in_sees_pages_and_logs_out() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &[]);
    for page in ["/", "/explorer", "/streams", "/docs"] {
        let (session, ended) = log_in(&provider, &weir, "analyst", page);
        assert_eq!(path_at(&weir, &location(&ended)), page);
        let shown = weir.send("GET", page, &[PAGE, ("Cookie", &session)], b"").expect(200);
        assert!(shown.text().contains("analyst") && shown.text().contains("api/v2/auth/logout"), "{page}");
        assert_eq!(shown.header("cache-control"), Some("no-store"));
    }
    let (session, ended) = log_in(&provider, &weir, "analyst", "/explorer?layout=tree");
    assert_eq!(path_at(&weir, &location(&ended)), "/explorer?layout=tree");
    let set: Vec<&str> = ended.headers.iter().filter(|(name, _)| name == "set-cookie").map(|(_, value)| value.as_str()).collect();
    assert!(set.iter().all(|cookie| cookie.contains("; HttpOnly; SameSite=Lax; ")), "{set:?}");
    assert!(set.iter().any(|cookie| cookie.starts_with("weir_session=") && cookie.contains("Max-Age=28800")), "{set:?}");
    let with_cookie = |method: &str, target: &str| weir.send(method, target, &[("Cookie", &session)], b"");
    let me = with_cookie("GET", ME).expect(200).json()["content"].clone();
    assert_eq!((&me["roles"], &me["name"]), (&json!(["Analyst"]), &json!("analyst")));
    with_cookie("GET", "/explorer/main.js").expect(200);
    // A link from elsewhere leads to pages alone, and nobody keeps what somebody was given.
    let followed = |target: &str| weir.send("GET", target, &[("Cookie", &session), ("Sec-Fetch-Site", "cross-site")], b"");
    followed("/explorer").expect(200);
    followed(ME).expect(403);
    assert_eq!(with_cookie("GET", ME).expect(200).header("cache-control"), Some("no-store"));
    with_cookie("GET", "/api/v1/admin/config").expect(403);
    // A program is not sent anywhere, nor is who asks for data.
    weir.get("/explorer").expect(401);
    weir.send("GET", ME, &[PAGE], b"").expect(401);
    // Over on both sides.
    let other = log_in(&provider, &weir, "analyst", "/").0;
    let left = with_cookie("GET", LOGOUT);
    assert!(location(&left).contains("/protocol/openid-connect/logout?id_token_hint="), "{}", left.shown());
    assert!(left.headers.iter().any(|(name, value)| name == "set-cookie" && value.contains("Max-Age=0")));
    let over = with_cookie("GET", ME).expect(401);
    assert!(over.text().contains("session has ended"), "{}", over.text());
    weir.send("GET", ME, &[("Cookie", &other)], b"").expect(200);
    let own = format!("http://{}", weir.address());
    weir.send("POST", LOGOUT, &[("Cookie", &other), ("Origin", &own)], b"").expect(204);
    weir.send("GET", ME, &[("Cookie", &other)], b"").expect(401);
    assert!(weir.log().contains("(analyst) has logged in: Analyst") && weir.log().contains("has logged out"), "{}", weir.log());
    let value = session.split_once('=').expect("a cookie").1;
    assert_hidden(&weir, &[value]);
}

#[test]
fn a_login_ends_only_where_it_was_begun_and_leads_to_nobody_else() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &[]);
    let begin = |back: &str| {
        let sent = weir.send("GET", &format!("{LOGIN}?returnTo={back}"), &[PAGE], b"");
        (location(&sent), cookies(&sent))
    };
    let visit = |there: &str, user: &str| location(&provider.visit("GET", &format!("{there}&login_hint={user}"), &[], ""));
    for back in [
        "https://evil.example/",
        "%2F%2Fevil.example",
        "/%5Cevil.example",
        "%5C%5Cevil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "/a%0d%0aLocation:%20https://evil.example",
        "@evil.example",
        "",
    ] {
        let (there, kept) = begin(back);
        let ended = weir.send("GET", path_at(&weir, &visit(&there, "analyst")), &[("Cookie", &kept)], b"");
        assert_eq!(path_at(&weir, &location(&ended)), "/", "{back}");
    }
    let end = |back: &str, kept: &str| weir.send("GET", path_at(&weir, back), &[("Cookie", kept)], b"");
    // Without what the browser was given, with that of another login, and with that of somebody who makes one.
    let ((there, kept), (_, other)) = (begin("/"), begin("/"));
    let back = visit(&there, "analyst");
    for cookie in ["", "weir_login=x", "weir_session=x", other.as_str()] {
        let answer = end(&back, cookie).expect(400);
        assert!(answer.text().contains("begin again") && cookies(&answer).is_empty(), "{cookie}: {}", answer.shown());
    }
    let state = back.split("state=").nth(1).and_then(|rest| rest.split('&').next()).expect("a state");
    end(&back.replace(state, "x"), &kept).expect(400);
    end(&back.replace("iss=", "iss=http%3A%2F%2Fevil.example%2F%3F"), &kept).expect(400);
    let ended = end(&back, &kept);
    assert!(cookies(&ended).starts_with("weir_session="), "{}", ended.shown());
    // A code is worth something once.
    let again = end(&back, &kept).expect(403);
    assert!(again.text().contains("does not take the code") && cookies(&again).is_empty(), "{}", again.text());
    // Somebody whom the provider does not let in.
    let (there, kept) = begin("/");
    let answer = end(&visit(&there, "stranger"), &kept).expect(403);
    assert!(answer.text().contains("access_denied"), "{}", answer.text());
    // A verifier of another login: PKCE.
    let ((first, _), (second, kept)) = (begin("/"), begin("/"));
    let code = |back: &str| back.split("code=").nth(1).and_then(|rest| rest.split('&').next()).expect("a code").to_owned();
    let (of_first, of_second) = (visit(&first, "superadmin"), visit(&second, "analyst"));
    let stolen = of_second.replace(&code(&of_second), &code(&of_first));
    end(&stolen, &kept).expect(403);
}

#[test]
fn pages_of_others_do_nothing_with_a_session() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &["-Dweir.webserver.allowed-origins.0=https://ui.example.com"]);
    let (session, _) = log_in(&provider, &weir, "architect", "/explorer");
    let own = format!("http://{}", weir.address());
    let ask = |more: &[(&str, &str)]| {
        let headers = [&[("Cookie", session.as_str()), ("Content-Type", "text/plain")], more].concat();
        weir.send("POST", QUERY_V2, &headers, b"CREATE (n:Forged) RETURN 1").status
    };
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "https://ui.example.com"] {
        assert_eq!(ask(&[("Origin", origin)]), 403, "{origin}");
    }
    assert_eq!(ask(&[]), 403, "nobody says where it is from");
    assert_eq!(ask(&[("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(ask(&[("Origin", "https://evil.example"), ("Sec-Fetch-Site", "same-site")]), 403);
    for method in ["PUT", "DELETE"] {
        let answer = weir.send(method, "/api/v1/namespace/forged", &[("Cookie", &session)], b"");
        assert_eq!(answer.status, 403, "{method}");
    }
    assert_eq!(ask(&[("Origin", &own)]), 200);
    assert_eq!(ask(&[("Sec-Fetch-Site", "same-origin")]), 200);
    let architect = provider.token("architect");
    let made = query(&weir, &architect, "MATCH (n:Forged) RETURN count(n)").expect(200).json()["results"][0][0].clone();
    assert_eq!(made, 2);
    // Web sockets, which browsers open wherever a page likes.
    let open = |origin: &str| Socket::open_with(&weir, "/api/v1/query", &[("Cookie", &session), ("Origin", origin)]);
    for origin in ["https://evil.example", "https://ui.example.com"] {
        assert!(open(origin).is_err_and(|head| head.starts_with("HTTP/1.1 403 ")), "{origin}");
    }
    assert!(Socket::open_with(&weir, "/api/v1/query", &[("Cookie", &session)]).is_err());
    open(&own).expect("a socket of its own page");
    // A page that is named asks with a token.
    let headers = [("Authorization", bearer(&architect)), ("Origin", "https://ui.example.com".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = weir.send("POST", QUERY_V2, &[headers.as_slice(), &[("Content-Type", "text/plain")]].concat(), b"RETURN 1");
    assert_eq!(answer.expect(200).header("access-control-allow-origin"), Some("https://ui.example.com"));
    let asks = [("Origin", "https://ui.example.com"), ("Access-Control-Request-Method", "POST")];
    let may = weir.send("OPTIONS", QUERY_V2, &asks, b"").expect(204);
    assert!(may.header("access-control-allow-headers").is_some_and(|names| names.contains("authorization")));
    // A link on a page of others logs nobody out.
    weir.send("GET", LOGOUT, &[("Cookie", &session), ("Sec-Fetch-Site", "cross-site")], b"").expect(403);
    weir.send("POST", LOGOUT, &[("Cookie", &session)], b"").expect(403);
    weir.send("GET", ME, &[("Cookie", &session)], b"").expect(200);
}

/// What only reads, and what does more, with what that needs.
const READS: &[&str] = &[
    "MATCH (n) RETURN count(n)",
    "EXPLAIN CREATE (n:New)",
    "PROFILE MATCH (n) RETURN n",
    "CALL help.procedures() YIELD name RETURN name",
    "SHOW QUERIES",
    "SHOW INDEXES",
];
const DOES_MORE: &[(&str, &str)] = &[
    ("CREATE (n:New)", "graph:write"),
    ("PROFILE CREATE (n:New)", "graph:write"),
    ("MATCH (n) SET n.x = 1", "graph:write"),
    ("MATCH (n) DETACH DELETE n", "graph:write"),
    ("MERGE (n:New {x: 1})", "graph:write"),
    ("MATCH (n) CALL incrementCounter(n, 'x') YIELD count RETURN count", "graph:write"),
    ("CALL cypher.doIt('RETURN 1') YIELD value RETURN value", "graph:write"),
    ("MATCH (n) CALL { WITH n SET n.x = 1 RETURN 1 AS one } RETURN one", "graph:write"),
    ("RETURN 1 AS x UNION ALL CREATE (n:New) RETURN 1 AS x", "graph:write"),
    ("CREATE INDEX i FOR (n:A) ON (n.x)", "schema:write"),
    ("LOAD CSV FROM 'secrets.csv' AS row RETURN row", "outside:read"),
    ("CALL loadJsonLines('http://127.0.0.1:9/') YIELD value RETURN value", "outside:read"),
    ("CALL history.queryAt('LOAD CSV FROM \"x\" AS row RETURN row', 1) YIELD value RETURN value", "outside:read"),
    ("TERMINATE QUERY '1'", "query:end"),
    ("CALL query.terminate('1') YIELD id RETURN id", "query:end"),
    ("CALL standing.wiretap({name: 'q'}) YIELD data RETURN data", "standing:read"),
];

#[test]
fn who_may_only_read_changes_nothing_by_whatever_way() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &[]);
    let (architect, analyst) = (provider.token("architect"), provider.token("analyst"));
    query(&weir, &architect, "CREATE (n:Old {x: 0}) RETURN 1").expect(200);
    let hash = || get(&weir, "/api/v1/admin/graph-hash-code", &architect).expect(200).json()["value"].clone();
    let before = hash();
    for (path, family) in
        [(QUERY_V1, Family::V1), ("/api/v2/cypher-queries/query-graph", Family::Preview), (QUERY_V2, Family::Current)]
    {
        for text in READS {
            post(&weir, path, &analyst, &json!({"text": text})).expect(200);
        }
        for (text, needs) in DOES_MORE {
            let answer = post(&weir, path, &analyst, &json!({"text": text}));
            assert_eq!(refused(&answer, family, 403, "PERMISSION_DENIED"), Ok(()), "{text}");
            assert!(answer.text().contains(needs), "{text}: {}", answer.text());
        }
    }
    for path in ["/api/v1/query/cypher/nodes", "/api/v1/query/cypher/edges", "/api/v2/graph/quine/cypher:queryNodes"] {
        post(&weir, path, &analyst, &json!({"text": "CREATE (n:New) RETURN n"})).expect(403);
    }
    // Over web sockets, a message at a time.
    for (path, v1) in [("/api/v1/query", true), ("/api/v2/query/ws", false), ("/api/v2/graph/quine/query/ws", false)] {
        let mut socket = Socket::open_with(&weir, path, &[("Authorization", &bearer(&analyst))]).expect("a socket");
        let ask = |id: usize, text: &str| {
            let mut message = json!({"type": "RunQuery", "queryId": id, "query": text});
            let more =
                if v1 { json!({"sort": "TextSort", "parameters": {}, "language": "Cypher"}) } else { json!({"sort": "Text"}) };
            let (Some(message), Json::Object(more)) = (message.as_object_mut(), more) else { panic!("objects") };
            message.extend(more);
            Json::Object(message.clone()).to_string()
        };
        for (id, (text, needs)) in DOES_MORE.iter().enumerate() {
            socket.send(&ask(id, text));
            let answer = socket.expect();
            assert_eq!(answer["type"], "MessageError", "{text}: {answer}");
            assert!(answer["error"].as_str().is_some_and(|error| error.contains(needs)), "{text}: {answer}");
        }
        socket.send(&ask(100, "MATCH (n) RETURN count(n)"));
        assert_eq!(socket.expect()["type"], "QueryStarted");
    }
    // What only reads by its method has no way around it either.
    let walk = "/api/v2/algorithm/nodes/00000000-0000-0000-0000-000000000001/walk?query=CREATE%20(n:New)%20RETURN%20n";
    assert!(matches!(post(&weir, walk, &analyst, &json!({})).status, 400 | 403));
    assert_eq!(hash(), before);
    assert_eq!(query(&weir, &architect, "MATCH (n) RETURN count(n)").expect(200).json()["results"], json!([[1]]));
    // Who may does.
    query(&weir, &architect, "MATCH (n) SET n.x = 1").expect(200);
    query(&weir, &architect, "CREATE INDEX i FOR (n:A) ON (n.x)").expect(200);
    let engineer = provider.token("dataengineer");
    query(&weir, &engineer, "CREATE (n:New)").expect(403);
    query(&weir, &engineer, "MATCH (n) RETURN n").expect(200);
}

/// A stream of numbers and a standing query over it.
fn prepare(weir: &Weir, token: &str) {
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Seen) RETURN DISTINCT id(n) AS id"});
    post(weir, "/api/v1/query/standing/seen", token, &json!({"pattern": pattern, "outputs": {}})).expect(201);
}

#[test]
fn web_sockets_and_events_end_with_the_login() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &["-Dweir.auth.session.lifetime=4 s"]);
    let engineer = provider.token("dataengineer");
    prepare(&weir, &engineer);
    let own = format!("http://{}", weir.address());
    let mut session = String::new();
    for by_session in [false, true] {
        let mut credential = vec![("Authorization", bearer(&engineer))];
        if by_session {
            (session, _) = log_in(&provider, &weir, "dataengineer", "/");
            credential = vec![("Cookie", session.clone()), ("Origin", own.clone())];
        }
        let headers: Vec<(&str, &str)> = credential.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let began = Instant::now();
        let paths =
            ["/api/v1/query", "/api/v2/lsp", "/api/v1/query/standing/seen", "/api/v2/graph/quine/standingQueries/seen:tap"];
        let mut sockets: Vec<Socket> = paths
            .iter()
            .map(|path| Socket::open_with(&weir, path, &headers).unwrap_or_else(|head| panic!("{path}: {head}")))
            .collect();
        let events = ["/api/v1/query/standing/seen/results", "/live/events"];
        let streams: Vec<_> =
            events.iter().map(|path| client::open(weir.address(), "GET", path, &headers, b"").expect("a connection")).collect();
        for socket in &mut sockets {
            assert!(socket.message().is_none(), "it is closed");
        }
        for stream in streams {
            client::read(stream, false).expect("it has an end").expect(200);
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
    wait_until("the session is over", PATIENCE, || weir.send("GET", ME, &[("Cookie", &session)], b"").status == 401);
}

#[test]
fn what_a_session_has_opened_ends_when_somebody_logs_out() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let weir = provider.weir(&Home::new(), &[]);
    prepare(&weir, &provider.token("dataengineer"));
    let own = format!("http://{}", weir.address());
    let (session, _) = log_in(&provider, &weir, "dataengineer", "/");
    let headers = [("Cookie", session.as_str()), ("Origin", own.as_str())];
    let mut socket = Socket::open_with(&weir, "/api/v1/query", &headers).expect("a socket");
    let mut other =
        Socket::open_with(&weir, "/api/v1/query", &[("Authorization", &bearer(&provider.token("analyst")))]).expect("a socket");
    let stream = client::open(weir.address(), "GET", "/api/v1/query/standing/seen/results", &headers, b"").expect("a connection");
    let message = json!({"type": "RunQuery", "queryId": 1, "query": "RETURN 1", "sort": "TextSort", "parameters": {}, "language": "Cypher"});
    socket.send(&message.to_string());
    assert_eq!(socket.expect()["type"], "QueryStarted");
    weir.send("POST", LOGOUT, &headers, b"").expect(204);
    client::read(stream, false).expect("it has an end").expect(200);
    while let Some(message) = socket.message() {
        assert_ne!(message["type"], "MessageError", "{message}");
    }
    other.send(&message.to_string());
    assert_eq!(other.expect()["type"], "QueryStarted", "those of others stay");
}

/// The command line, with variables.
fn run(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("WEIR_TOKEN").envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("weir starts");
    // It may not read it at all.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("weir ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_line_says_who_asks() {
    let Some(provider) = Provider::start(LEFT_OUT) else { return };
    let home = Home::new();
    let weir = provider.weir(&home, &["-Dweir.store.type=map-db"]);
    let url = format!("http://{}", weir.address());
    let of = |user: &str| {
        let (token, file) = (provider.token(user), home.file(&format!("{user}.token")));
        std::fs::write(&file, format!("{token}\n")).expect("a file");
        (token, file.display().to_string())
    };
    let ((architect, by_architect), (analyst, by_analyst)) = (of("architect"), of("analyst"));
    let ((_, by_engineer), (_, by_admin)) = (of("dataengineer"), of("administrator"));
    let one = ["query", "--url", &url, "CREATE (n:Made) RETURN 1 AS one", "--format", "csv"];
    let (code, _, error) = run(&one, &[], "");
    assert!(code == Some(1) && error.contains("--token-file") && error.contains("WEIR_TOKEN"), "{code:?} {error}");
    let (code, out, error) = run(&[one.as_slice(), &["--token-file", &by_architect]].concat(), &[], "");
    assert_eq!((code, out.as_str(), error.as_str()), (Some(0), "one\r\n1\r\n", ""));
    let (code, out, _) = run(&one, &[("WEIR_TOKEN", &architect)], "");
    assert_eq!((code, out.as_str()), (Some(0), "one\r\n1\r\n"));
    let (code, _, error) = run(&one, &[("WEIR_TOKEN", &analyst)], "");
    assert!(code == Some(1) && error.contains("graph:write"), "{code:?} {error}");
    let (code, _, error) = run(&[one.as_slice(), &["--token-file", "not-there"]].concat(), &[], "");
    assert!(code == Some(3) && error.contains("the token cannot be read from not-there"), "{code:?} {error}");
    // A script of the shell is held to the same.
    let shell = ["shell", "--url", &url, "--token-file", &by_analyst];
    let (code, out, error) = run(&shell, &[], "MATCH (n) RETURN count(n) AS nodes;\nCREATE (n:Made);\n");
    assert!(out.contains('2') && format!("{out}{error}").contains("graph:write") && code != Some(0), "{code:?} {out} {error}");
    let (code, _, error) = run(&["shell", "--url", &url], &[], "RETURN 1;\n");
    assert!(code != Some(0) && error.contains("--token-file"), "{code:?} {error}");
    // Everything else that asks.
    prepare(&weir, &provider.token("dataengineer"));
    let (code, out, error) = run(&["plan", "seen", "--url", &url, "--token-file", &by_engineer], &[], "");
    assert!(code == Some(0) && !out.is_empty(), "{error}");
    assert_eq!(run(&["plan", "seen", "--url", &url, "--token-file", &by_analyst], &[], "").0, Some(1));
    let (file, backup) = (home.file("graph.jsonl").display().to_string(), home.file("weir.backup").display().to_string());
    let (code, _, error) = run(&["export", &file, "--url", &url, "--token-file", &by_analyst], &[], "");
    assert!(code == Some(0) && home.read("graph.jsonl").lines().count() >= 2, "{error}");
    let import = ["import", &file, "--url", &url, "--token-file"];
    assert_eq!(run(&[import.as_slice(), &[&by_analyst]].concat(), &[], "").0, Some(1));
    let (code, _, error) = run(&[import.as_slice(), &[&by_architect]].concat(), &[], "");
    assert_eq!(code, Some(0), "{error}");
    let back_up = ["backup", &backup, "--url", &url, "--token-file"];
    assert_eq!(run(&[back_up.as_slice(), &[&by_architect]].concat(), &[], "").0, Some(1));
    let (code, _, error) = run(&[back_up.as_slice(), &[&by_admin]].concat(), &[], "");
    assert_eq!(code, Some(0), "{error}");
    // Without a weir to be asked a token says nothing.
    assert_eq!(run(&["export", &file, "--token-file", &by_analyst], &[], "").0, Some(2));
    assert!(weir.log().contains("audit: 127.0.0.1") && weir.log().contains("(administrator): GET /api/v1/admin/backup: 200"));
    assert_hidden(&weir, &[&architect, &analyst]);
}

#[test]
fn what_sets_up_logins_wrongly_is_refused_and_shown_without_secrets() {
    let home = Home::new();
    let refused = |file: &str| {
        home.write("weir.conf", file);
        run(&["config", &home.file("weir.conf").display().to_string()], &[], "")
    };
    let (code, _, error) = refused("quine.auth.oidc { client-id = weir, client-secret = hush }");
    assert!(code == Some(2) && error.contains("logins need a provider") && !error.contains("hush"), "{error}");
    let (code, _, error) = refused("weir.auth.oidc { issuer = \"http://login.example\", audience = weir }");
    assert!(code == Some(2) && error.contains("plain-http"), "{error}");
    let fine = "quine.auth.oidc { issuer = \"https://login.example\", client-id = weir, client-secret = hush }";
    let (code, out, error) = refused(fine);
    assert!(code == Some(0) && out.contains("Secret(****)") && !out.contains("hush"), "{out} {error}");
}

#[test]
fn without_logins_everybody_may_everything_and_the_routes_say_so() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    weir.rows("CREATE (n) RETURN 1");
    for (method, path) in [("GET", ME), ("GET", LOGIN), ("GET", LOGOUT), ("POST", LOGOUT), ("GET", "/api/v2/auth/callback")] {
        let answer = weir.send(method, path, &[], b"").expect(404);
        assert!(answer.text().contains("There are no logins here"), "{}", answer.text());
    }
    // A credential that nobody looks at does no harm.
    get(&weir, "/api/v1/admin/config", "a.b.c").expect(200);
    let roles = weir.get("/api/v2/admin/roles").expect(200).json()["content"].clone();
    assert!(
        roles.as_array().into_iter().flatten().any(|role| role == &json!({"name": "Billing", "permissions": ["usage:read"]}))
    );
    assert!(weir.get("/api/v2/openapi.json").expect(200).json().get("security").is_none());
    assert!(ROUTES.iter().any(|route| route.method == Method::POST && route.path == LOGOUT));
}

/// Keycloak's own form: where it goes, and what comes back.
fn fill_in(provider: &Provider, there: &str, user: &str) -> Answer {
    let form = provider.visit("GET", there, &[], "").expect(200);
    let page = form.text();
    let action = page.split("action=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a form").replace("&amp;", "&");
    let headers = [("Cookie", cookies(&form)), ("Content-Type", "application/x-www-form-urlencoded".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    provider.visit("POST", &action, &headers, &format!("username={user}&password={user}"))
}

#[test]
fn keycloak_lets_people_programs_and_browsers_in() {
    let Some(provider) = Provider::keycloak(LEFT_OUT_KEYCLOAK) else { return };
    let home = Home::new();
    let weir = provider.weir(&home, &[]);
    for (user, role) in USERS {
        let me = get(&weir, ME, &provider.token(user)).expect(200).json()["content"].clone();
        assert_eq!(me["roles"], json!([role]), "{me}");
    }
    assert_eq!(get(&weir, ME, &provider.token("nobody")).expect(200).json()["content"]["permissions"], json!([]));
    assert_eq!(get(&weir, ME, &provider.machine()).expect(200).json()["content"]["roles"], json!(["DataEngineer"]));
    for (user, read, write, config, ingests, usage) in [
        ("superadmin", 200, 200, 200, 200, 200),
        ("administrator", 403, 403, 200, 403, 200),
        ("architect", 200, 200, 403, 403, 403),
        ("dataengineer", 200, 403, 403, 200, 403),
        ("analyst", 200, 403, 403, 403, 403),
        ("billing", 403, 403, 403, 403, 200),
    ] {
        let token = provider.token(user);
        for path in [QUERY_V1, QUERY_V2] {
            post(&weir, path, &token, &json!({"text": "MATCH (n) RETURN count(n)"})).expect(read);
            post(&weir, path, &token, &json!({"text": "CREATE (n:Made) RETURN 1"})).expect(write);
        }
        for (status, paths) in [
            (config, ["/api/v1/admin/config", "/api/v2/system/config"]),
            (ingests, ["/api/v1/ingest", "/api/v2/graph/quine/ingests"]),
            (usage, ["/api/v1/admin/ingest-usage", "/api/v2/admin/license-usage"]),
        ] {
            paths.iter().for_each(|path| drop(get(&weir, path, &token).expect(status)));
        }
    }
    // What was given to somebody else, or for something else.
    let tokens = provider.tokens("superadmin");
    get(&weir, ME, &text(&tokens["id_token"])).expect(401);
    get(&weir, ME, &text(&tokens["refresh_token"])).expect(401);
    let pairs = [("grant_type", "password"), ("client_id", "other"), ("client_secret", "other-secret")];
    let of_other = provider.grant(&[pairs.as_slice(), &[("username", "superadmin"), ("password", "superadmin")]].concat());
    let answer = get(&weir, ME, &text(&of_other.expect(200).json()["access_token"])).expect(401);
    assert!(answer.text().contains("another audience"), "{}", answer.text());
    // A browser.
    let login = location(&weir.send("GET", "/explorer", &[PAGE], b""));
    let sent = weir.send("GET", &format!("/{login}"), &[PAGE], b"");
    let (there, kept) = (location(&sent), cookies(&sent));
    assert!(there.contains(&format!("client_id={CLIENT}")), "{there}");
    let back = location(&fill_in(&provider, &there, "architect"));
    let ended = weir.send("GET", path_at(&weir, &back), &[("Cookie", &kept)], b"");
    assert_eq!(path_at(&weir, &location(&ended)), "/explorer");
    let session = cookies(&ended);
    let me = weir.send("GET", ME, &[("Cookie", &session)], b"").expect(200).json()["content"].clone();
    assert_eq!((&me["roles"], &me["name"]), (&json!(["Architect"]), &json!("architect")));
    weir.send("GET", path_at(&weir, &back), &[("Cookie", &kept)], b"").expect(403);
    let left = location(&weir.send("GET", LOGOUT, &[("Cookie", &session)], b""));
    let over = provider.visit("GET", &left, &[], "");
    assert!(matches!(over.status, 200 | 302), "{}", over.shown());
    weir.send("GET", ME, &[("Cookie", &session)], b"").expect(401);
    assert_hidden(&weir, &[&text(&tokens["access_token"])]);
}
