#!/usr/bin/env bash
# An authorization server that gives tokens for client credentials, at the paths and in the shape of Keycloak's: signed (RS256), for an
# audience, for a while. OIDC_LIFETIME seconds (300), OIDC_AUDIENCE (kafka). The log says who was given one, and who was not.
# oidc.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"

install() {
  command -v python3 >/dev/null || die "no python3"
  command -v openssl >/dev/null || die "no openssl"
}

start() {
  # Characters that a form, a URL and a Basic header each carry in a way of their own.
  local client=weir secret='weir-secret+100%/:&'
  openssl genrsa -out "$dir/signing.key" 2048 2>>"$dir/log"
  cat >"$dir/server.py" <<'PY'
import base64, json, math, secrets, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote_plus

port, key, client, secret, lifetime, audience = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6]
issuer = f"http://127.0.0.1:{port}/realms/weir"
oidc = "/realms/weir/protocol/openid-connect"


def encoded(value):
    value = json.dumps(value).encode() if isinstance(value, dict) else value
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def keys():
    told = subprocess.run(["openssl", "rsa", "-in", key, "-noout", "-modulus"], capture_output=True, check=True, text=True).stdout
    modulus = bytes.fromhex(told.strip().split("=")[1])
    return {"keys": [{"kid": "1", "use": "sig", "alg": "RS256", "kty": "RSA", "n": encoded(modulus), "e": encoded(b"\1\0\1")}]}


def token(name):
    # Times are whole seconds. Rounded up: of a token that lasts for seconds a client uses the last fifth, and a broker wants that to be one.
    now = math.ceil(time.time())
    claims = {"iss": issuer, "aud": audience, "sub": name, "azp": name, "scope": "profile", "typ": "Bearer",
              "iat": now - 1, "exp": now + lifetime, "jti": secrets.token_hex(8)}
    signed = encoded({"alg": "RS256", "typ": "JWT", "kid": "1"}) + "." + encoded(claims)
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=signed.encode(), capture_output=True, check=True).stdout
    return signed + "." + encoded(signature)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == f"{oidc}/certs":
            self.answer(keys())
        elif self.path == "/realms/weir/.well-known/openid-configuration":
            self.answer({"issuer": issuer, "token_endpoint": f"http://127.0.0.1:{port}{oidc}/token",
                         "jwks_uri": f"http://127.0.0.1:{port}{oidc}/certs"})
        else:
            self.answer({"error": "not_found"}, 404)

    def do_POST(self):
        form = dict(parse_qsl(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))
        if self.path != f"{oidc}/token":
            return self.answer({"error": "not_found"}, 404)
        kind, _, basic = self.headers.get("Authorization", "").partition(" ")
        # RFC 6749, 2.3.1: both are encoded as in a form before they are put together.
        pair = [unquote_plus(part) for part in base64.b64decode(basic).decode().split(":")] if kind == "Basic" else []
        if pair != [client, secret]:
            print("refused", flush=True)
            return self.answer({"error": "unauthorized_client", "error_description": "Invalid client or Invalid client credentials"}, 401)
        if form.get("grant_type") != "client_credentials":
            return self.answer({"error": "unsupported_grant_type"}, 400)
        print("token for", client, form.get("scope", ""), flush=True)
        self.answer({"access_token": token(client), "token_type": "Bearer", "expires_in": lifetime, "scope": form.get("scope", "profile")})

    def log_message(self, form, *args):
        pass


ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
PY
  spawn python3 "$dir/server.py" "$port" "$dir/signing.key" "$client" "$secret" "${OIDC_LIFETIME:-300}" "${OIDC_AUDIENCE:-kafka}"
  await 120 web "http://127.0.0.1:$port/realms/weir/.well-known/openid-configuration"
  say "OIDC_ISSUER=http://127.0.0.1:$port/realms/weir"
  say "OIDC_TOKENS=http://127.0.0.1:$port/realms/weir/protocol/openid-connect/token"
  say "OIDC_CLIENT_ID=$client"
  say "OIDC_CLIENT_SECRET=$secret"
}

main "$@"
