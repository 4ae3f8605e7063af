//! Who weir is for Amazon where no definition says it: roles that are taken on by way of a profile, or with a token in a file.
//!
//! What stands in for Amazon checks signatures here and decides permissions: only who has taken on the role may read.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use weir_tests::aws::Amazon;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{COUNT, STREAMS, counted, message};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(120);

const RECORDS: u64 = 20;

/// Of a queue, and of a stream of Kinesis.
const ALLOWED: &[&str] = &["sqs:*", "kinesis:*"];

/// As a platform puts it into a file. Nobody here looks at its signature.
fn token(issuer: &str) -> String {
    let part = |part: serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let claims = json!({"iss": format!("https://{issuer}"), "sub": "weir", "aud": "sts.amazonaws.com"});
    format!("{}.{}.{}", part(json!({"alg": "RS256"})), part(claims), part(json!("signed-hush")))
}

/// With the configuration of Amazon's programs that lies in its directory.
fn start(home: &Home, amazon: &Amazon, more: &[(&str, &str)]) -> Weir {
    let endpoint = format!("http://{}", amazon.address);
    let usual = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_CONFIG_FILE", "config"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        // A key of whoever runs the tests. Empty is as if it were not there.
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
    ];
    home.start_with(&[&usual, more].concat(), &[])
}

fn read_queue(weir: &Weir, amazon: &Amazon, queue: &str) {
    let url = format!("http://{}{queue}", amazon.address);
    let source = json!({"type": "SQS", "queueUrl": url, "format": {"type": "Json"}});
    weir.post(STREAMS, &json!({"name": "queue", "source": source, "query": COUNT})).expect(201);
}

#[test]
fn roles_are_taken_on_by_way_of_profiles_and_with_tokens_in_files() {
    let Some(amazon) = Amazon::start_strict("roles at Amazon, by profile and by web identity") else { return };
    let user = amazon.create_user("carrier");
    let account = user.arn.split(':').nth(4).expect("an account");
    let by_key = amazon.create_role("by-key", json!({"AWS": user.arn}), "AssumeRole", ALLOWED);
    let provider = json!({"Federated": format!("arn:aws:iam::{account}:oidc-provider/tokens.test")});
    let by_token = amazon.create_role("by-token", provider, "AssumeRoleWithWebIdentity", ALLOWED);
    let secrets = [user.secret.as_str(), &URL_SAFE_NO_PAD.encode(json!("signed-hush").to_string())];
    let home = || {
        let home = Home::new();
        home.write(
            "config",
            format!(
                "[profile carrier]\nregion = us-east-1\n\
                 [profile role]\nrole_arn = {by_key}\nsource_profile = carrier\n\
                 [profile own-program]\ncredential_process = sh keys.sh\n\
                 [profile program]\nrole_arn = {by_key}\nsource_profile = own-program\n\
                 [profile environment]\nrole_arn = {by_key}\ncredential_source = Environment\n\
                 [profile token]\nrole_arn = {by_token}\nweb_identity_token_file = token\n"
            ),
        );
        home.write(
            "credentials",
            format!("[carrier]\naws_access_key_id = {}\naws_secret_access_key = {}\n", user.key, user.secret),
        );
        let keys = json!({"Version": 1, "AccessKeyId": user.key, "SecretAccessKey": user.secret});
        home.write("keys.sh", format!("echo '{keys}'"));
        home.write("token", token("tokens.test"));
        home
    };
    let own = [("AWS_ACCESS_KEY_ID", user.key.as_str()), ("AWS_SECRET_ACCESS_KEY", &user.secret)];

    amazon.create_stream("shared", 2);
    amazon.put_records("shared", RECORDS..2 * RECORDS);
    let kinesis =
        json!({"type": "Kinesis", "streamName": "shared", "iteratorType": {"type": "TrimHorizon"}, "format": {"type": "Json"}});
    let without_profile = [("AWS_ROLE_ARN", by_token.as_str()), ("AWS_WEB_IDENTITY_TOKEN_FILE", "token")];
    for (way, variables) in [
        ("role", &[("AWS_PROFILE", "role")][..]),
        ("program", &[("AWS_PROFILE", "program")]),
        ("token", &[("AWS_PROFILE", "token")]),
        ("no-profile", &without_profile),
    ] {
        let queue = amazon.create_queue(way);
        amazon.send_messages(&queue, 0..RECORDS);
        let home = home();
        let weir = start(&home, &amazon, variables);
        read_queue(&weir, &amazon, &queue);
        weir.post(STREAMS, &json!({"name": "stream", "source": kinesis, "query": COUNT})).expect(201);
        wait_until(&format!("all records are read by way of {way}"), PATIENCE, || counted(&weir).0 == 2 * RECORDS);
        assert_eq!(counted(&weir).1, 1);
        assert!(secrets.iter().all(|secret| !weir.log().contains(secret)), "{}", weir.log());
        weir.stop();
    }

    // The user alone may not, nor may one whose key is in the environment: it comes before any profile, as in Amazon's own
    // programs, so that nobody asks for the role.
    let queue = amazon.create_queue("refused");
    let environment = [&own[..], &[("AWS_PROFILE", "environment")]].concat();
    for variables in [&[("AWS_PROFILE", "carrier")][..], &environment] {
        let home = home();
        let weir = start(&home, &amazon, variables);
        read_queue(&weir, &amazon, &queue);
        let told = weir.wait_ingest("queue", "Failed", PATIENCE)["message"].to_string();
        assert!(told.contains("user/carrier is not authorized to perform: sqs:ReceiveMessage"), "{told}");
        weir.stop();
    }

    // Of a profile that is not there the reason stays, and it is found once it is.
    amazon.send_messages(&queue, 0..RECORDS);
    let late = home();
    let weir = start(&late, &amazon, &[("AWS_PROFILE", "late")]);
    read_queue(&weir, &amazon, &queue);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(400));
        wait_until("the stream says what is missing", PATIENCE, || message(&weir, "queue").contains("`late`"));
    }
    let config = late.read("config");
    late.write("config", format!("{config}[profile late]\nrole_arn = {by_key}\nsource_profile = carrier\n"));
    wait_until("all records are read with what is there now", PATIENCE, || counted(&weir) == (RECORDS, 1));
    weir.stop();

    // A token that is not taken is told, and another one in its place is found.
    amazon.send_messages(&queue, 0..RECORDS);
    let home = home();
    home.write("token", token("elsewhere.test"));
    let weir = start(&home, &amazon, &[("AWS_PROFILE", "token")]);
    read_queue(&weir, &amazon, &queue);
    wait_until("the stream says that it may not", PATIENCE, || {
        message(&weir, "queue").contains("Not authorized to perform sts:AssumeRoleWithWebIdentity")
    });
    home.write("token", token("tokens.test"));
    wait_until("all records are read", PATIENCE, || counted(&weir) == (RECORDS, 1));
    assert!(secrets.iter().all(|secret| !weir.log().contains(secret)), "{}", weir.log());
    weir.stop();
}
