//! A browser without a window, as a person uses it: opens a page, types, clicks, and looks at what the page shows. It is told so
//! by the protocol of its developer tools.

use std::io::Read;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::client;
use crate::server::Server;
use crate::service::Weir;
use crate::socket::Socket;

/// What a page may take to show something; machines under load are slow.
const SHOWN_MAX: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(20);

pub struct Browser {
    server: Server,
}

impl Browser {
    /// None, loudly, where there is no browser and none can be installed.
    pub fn start(left_out: &str) -> Option<Browser> {
        Some(Browser { server: Server::start("browser.sh", 1, left_out)? })
    }

    /// Opens a page of weir in a tab of its own, and waits until it has loaded.
    pub fn open(&self, weir: &Weir, path: &str) -> Tab {
        let made = self.make_tab();
        let id = made["id"].as_str().expect("the id of a tab");
        let socket = Socket::open_at(self.server.address(0), &format!("/devtools/page/{id}"), &[]).expect("a tab");
        let mut tab = Tab { socket, asked: 0, wrong: Vec::new() };
        for domain in ["Runtime", "Log", "Page"] {
            tab.ask(&format!("{domain}.enable"), json!({}));
        }
        tab.go(&format!("http://{}{path}", weir.address()));
        tab
    }

    /// What the browser says about a new tab. It keeps connections open whatever it is asked, so the answer ends with its JSON.
    fn make_tab(&self) -> Json {
        let mut stream = client::open(self.server.address(0), "PUT", "/json/new?about:blank", &[], b"").expect("a browser");
        let (mut answer, mut part) = (Vec::new(), [0; 4096]);
        loop {
            let length = stream.read(&mut part).expect("an answer");
            assert!(length > 0, "the answer was cut off: {}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&part[..length]);
            let text = String::from_utf8_lossy(&answer);
            if let Some(made) = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()) {
                return made;
            }
        }
    }
}

pub struct Tab {
    socket: Socket,
    asked: u64,
    /// What the page or the browser found wrong: errors that nobody caught, what was refused by the page's policy or not found.
    wrong: Vec<String>,
}

impl Tab {
    /// Asks the browser; what it says meanwhile is looked at for errors.
    fn ask(&mut self, method: &str, params: Json) -> Json {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// As `ask`; the error is what the browser says where it could not.
    fn try_ask(&mut self, method: &str, params: Json) -> Result<Json, Json> {
        self.asked += 1;
        self.socket.send(&json!({"id": self.asked, "method": method, "params": params}).to_string());
        loop {
            let mut message = self.socket.expect();
            if message["id"] == json!(self.asked) {
                let failed = message.get("error").is_some();
                return if failed { Err(message["error"].take()) } else { Ok(message["result"].take()) };
            }
            self.hear(&message);
        }
    }

    fn hear(&mut self, message: &Json) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.wrong.push(params["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => self.wrong.push(params["args"].to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => self.wrong.push(params["entry"].to_string()),
            _ => {}
        }
    }

    pub fn go(&mut self, url: &str) {
        self.ask("Page.navigate", json!({"url": url}));
        self.wait("document.readyState === \"complete\" && location.href !== \"about:blank\"");
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, script: &str) -> Json {
        self.try_value(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// As `value`, where the page may be left for another at that moment: null while there is none.
    fn value_if_any(&mut self, script: &str) -> Json {
        self.try_value(script).unwrap_or_else(|error| {
            let said = error["message"].as_str().unwrap_or_default();
            // Cannot find default execution context; Execution context was destroyed; Inspected target navigated or closed.
            assert!(said.contains(" context") || said.contains("navigated"), "{script}: {error}");
            Json::Null
        })
    }

    fn try_value(&mut self, script: &str) -> Result<Json, Json> {
        let asked = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.try_ask("Runtime.evaluate", asked)?;
        assert!(answer.get("exceptionDetails").is_none(), "{script}: {answer}");
        Ok(answer["result"]["value"].take())
    }

    /// The text that is seen of what a selector finds first; none if there is nothing, or it is hidden.
    pub fn text(&mut self, selector: &str) -> Option<String> {
        let script = format!(
            "(found => found && found.checkVisibility() ? found.innerText : null)(document.querySelector({}))",
            json!(selector)
        );
        self.value_if_any(&script).as_str().map(str::to_owned)
    }

    /// Waits until an expression holds.
    pub fn wait(&mut self, script: &str) {
        // While a page is loaded there is none for a moment.
        let script = format!("Boolean({script})");
        self.until(&script, |tab| tab.value_if_any(&script) == json!(true));
    }

    /// Waits until what a selector finds first shows a text that has this in it.
    pub fn wait_text(&mut self, selector: &str, part: &str) {
        let what = format!("`{selector}` shows `{part}`");
        self.until(&what, |tab| tab.text(selector).is_some_and(|text| text.contains(part)));
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Tab) -> bool) {
        let deadline = Instant::now() + SHOWN_MAX;
        while !holds(self) {
            if Instant::now() > deadline {
                let seen = self.value("document.body.innerText");
                panic!("not within {SHOWN_MAX:?}: {what}\nthe page shows: {seen}\nwrong: {:?}", self.wrong);
            }
            sleep(LOOK);
        }
    }

    /// Clicks into the middle of what a selector finds first, as soon as it is seen and stays where it is. A page that moves
    /// under the pointer at that moment is clicked on anew, as a person does who missed.
    pub fn click(&mut self, selector: &str) {
        let selector = json!(selector);
        self.wait(&format!("document.querySelector({selector})?.checkVisibility()"));
        let script = format!(
            "(found => {{ if (!found) return null; found.scrollIntoView({{block: \"center\"}}); const box = found.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2; return found.contains(document.elementFromPoint(x, y)) ? [x, y] : null; }})(document.querySelector({selector}))"
        );
        // A page that was left for another by the click knows nothing of this.
        let watch = format!(
            "window.missed = true; document.addEventListener(\"click\", event => {{ window.missed = !document.querySelector({selector})?.contains(event.target); }}, {{capture: true, once: true}});"
        );
        let deadline = Instant::now() + SHOWN_MAX;
        let mut last = Json::Null;
        loop {
            let at = self.value(&script);
            if let (true, Some(x), Some(y)) = (at == last, at[0].as_f64(), at[1].as_f64()) {
                self.value(&watch);
                self.click_at(x, y, 1);
                if self.value_if_any("window.missed") != json!(true) {
                    return;
                }
            }
            assert!(Instant::now() < deadline, "{selector} does not stay where it can be clicked on");
            last = at;
            sleep(LOOK);
        }
    }

    /// Clicks `times` times at a place of the window.
    pub fn click_at(&mut self, x: f64, y: f64, times: u32) {
        self.ask("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
        for count in 1..=times {
            for kind in ["mousePressed", "mouseReleased"] {
                self.ask(
                    "Input.dispatchMouseEvent",
                    json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": count}),
                );
            }
        }
    }

    /// Types into what has the focus.
    pub fn write(&mut self, text: &str) {
        self.ask("Input.insertText", json!({"text": text}));
    }

    /// Presses a key that has a name, as `Enter`.
    pub fn press(&mut self, key: &str) {
        // What Enter inserts or submits is decided by its text.
        let text = if key == "Enter" { "\r" } else { "" };
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Delete" => 46,
            _ => 0,
        };
        let named = json!({"type": "keyDown", "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code});
        self.ask("Input.dispatchKeyEvent", named);
        self.ask("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}));
    }

    /// Nothing was found wrong so far.
    pub fn is_well(&mut self) {
        let wrong = self.found_wrong();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Nothing was found wrong so far but what has this in it.
    pub fn is_well_but(&mut self, expected: &str) {
        self.found_wrong().retain(|text| !text.contains(expected));
        self.is_well();
    }

    fn found_wrong(&mut self) -> &mut Vec<String> {
        // What was said until now comes before this answer.
        self.value("0");
        &mut self.wrong
    }
}
