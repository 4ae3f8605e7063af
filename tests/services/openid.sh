#!/usr/bin/env bash
# A small OpenID Connect provider. It reads the realm of keycloak.sh and answers at the same paths with tokens of the same shape.
# Grants: password, client_credentials, authorization_code (PKCE S256 checked; signs in login_hint without a form), refresh_token.
# For what must be refused: POST /test/token {claims, header, lifetime} signs anything, POST /test/rotate changes the key, GET /test/asked
# says how often the keys were asked for.
# openid.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"

realm=${OIDC_REALM:-$(cd "$(dirname "$0")" && pwd)/weir-realm.json}

install() { venv openid-2.10.1 'pyjwt[crypto]==2.10.1'; }

start() {
  cat >"$dir/provider.py" <<'PY'
import base64, hashlib, json, secrets, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

realm, port = json.load(open(sys.argv[1])), int(sys.argv[2])
base = f"http://127.0.0.1:{port}/realms/{realm['realm']}"
oidc = f"{base}/protocol/openid-connect"
lifetime = realm.get("accessTokenLifespan", 300)
clients = {c["clientId"]: c for c in realm["clients"]}
users = {u["username"]: u for u in realm["users"]}
services = {u["serviceAccountClientId"]: u for u in realm["users"] if "serviceAccountClientId" in u}
keys, codes, refreshes = [], {}, {}
asked = {"certs": 0}


class Refused(Exception):
    def __init__(self, error, status=400):
        self.error, self.status = error, status


def rotate():
    keys.insert(0, (secrets.token_hex(8), rsa.generate_private_key(public_exponent=65537, key_size=2048)))


def jwks():
    def one(kid, key):
        j = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        return {"kid": kid, "use": "sig", "alg": "RS256", "kty": "RSA", "n": j["n"], "e": j["e"]}
    return {"keys": [one(*keys[0])]}


def sign(claims, header=None, seconds=lifetime):
    kid, key = keys[0]
    now = int(time.time())
    whole = {"iss": base, "iat": now, "exp": now + seconds, "jti": secrets.token_hex(8), **claims}
    return jwt.encode(whole, key, "RS256", {"kid": kid, **(header or {})})


def claims_of(client, user):
    roles = user.get("clientRoles", {})
    if not client.get("fullScopeAllowed", True):
        roles = {}
    mapped = [m["config"]["included.client.audience"] for m in client.get("protocolMappers", [])
              if m["protocolMapper"] == "oidc-audience-mapper"]
    c = {"sub": hashlib.sha256(user["username"].encode()).hexdigest()[:32], "azp": client["clientId"],
         "preferred_username": user["username"], "email": user.get("email"), "name": user.get("firstName"),
         "resource_access": {k: {"roles": v} for k, v in roles.items()}}
    if any(m["config"].get("claim.name") == "roles" for m in client.get("protocolMappers", [])):
        c["roles"] = roles.get("weir", [])
    if mapped:
        c["aud"] = mapped if len(mapped) > 1 else mapped[0]
    return {k: v for k, v in c.items() if v}


def grant(client, user, scope, nonce=None, refresh=True):
    c = claims_of(client, user)
    out = {"access_token": sign({"typ": "Bearer", "scope": scope, **c}), "token_type": "Bearer", "expires_in": lifetime, "scope": scope}
    if "openid" in scope.split():
        out["id_token"] = sign({**c, "typ": "ID", "aud": client["clientId"], **({"nonce": nonce} if nonce else {})})
    if refresh:
        out["refresh_token"] = r = secrets.token_urlsafe(24)
        refreshes[r] = (client["clientId"], user["username"], scope)
    return out


def token(form, header):
    if header.startswith("Basic "):
        name, secret = (unquote(x) for x in base64.b64decode(header[6:]).decode().split(":", 1))
    else:
        name, secret = form.get("client_id"), form.get("client_secret")
    client = clients.get(name)
    if not client or (not client.get("publicClient") and client.get("secret") != secret):
        raise Refused("unauthorized_client", 401)
    kind, scope = form.get("grant_type"), form.get("scope", "profile email")
    if kind == "password" and client.get("directAccessGrantsEnabled"):
        user = users.get(form.get("username"))
        if not user or form.get("password") not in [c["value"] for c in user.get("credentials", [])]:
            raise Refused("invalid_grant")
        return grant(client, user, scope)
    if kind == "client_credentials" and client.get("serviceAccountsEnabled"):
        return grant(client, services.get(name, {"username": f"service-account-{name}"}), scope, refresh=False)
    if kind == "authorization_code":
        known = codes.pop(form.get("code"), None)
        if not known or known["client_id"] != name or known.get("redirect_uri") != form.get("redirect_uri"):
            raise Refused("invalid_grant")
        if "code_challenge" in known:
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != known["code_challenge"]:
                raise Refused("invalid_grant")
        return grant(client, users[known["user"]], known.get("scope", "openid"), known.get("nonce"))
    if kind == "refresh_token":
        known = refreshes.pop(form.get("refresh_token"), None)
        if not known or known[0] != name:
            raise Refused("invalid_grant")
        return grant(client, users[known[1]], known[2])
    raise Refused("unsupported_grant_type")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, form, *args):
        sys.stderr.write(form % args + "\n")

    def answer(self, value, status=200, headers=()):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urlsplit(self.path)
        at, query = f"http://127.0.0.1:{port}{url.path}", dict(parse_qsl(url.query))
        if at == f"{base}/.well-known/openid-configuration":
            self.answer({"issuer": base, "authorization_endpoint": f"{oidc}/auth", "token_endpoint": f"{oidc}/token",
                         "userinfo_endpoint": f"{oidc}/userinfo", "jwks_uri": f"{oidc}/certs", "end_session_endpoint": f"{oidc}/logout",
                         "response_types_supported": ["code"], "subject_types_supported": ["public"],
                         "grant_types_supported": ["authorization_code", "client_credentials", "password", "refresh_token"],
                         "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
                         "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
                         "scopes_supported": ["openid", "profile", "email"]})
        elif at == f"{oidc}/certs":
            asked["certs"] += 1
            self.answer(jwks())
        elif self.path == "/test/asked":
            self.answer(asked)
        elif at == f"{oidc}/auth":
            back = query.get("redirect_uri")
            if query.get("client_id") not in clients or not back:
                return self.answer({"error": "invalid_request"}, 400)
            user = query.get("login_hint")
            if user in users:
                code = secrets.token_urlsafe(16)
                codes[code] = {**query, "user": user}
                reply = {"code": code}
            else:
                reply = {"error": "access_denied"}
            if "state" in query:
                reply["state"] = query["state"]
            self.answer(None, 302, [("Location", back + ("&" if "?" in back else "?") + urlencode({**reply, "iss": base}))])
        elif at == f"{oidc}/userinfo":
            try:
                bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
                self.answer(jwt.decode(bearer, keys[0][1].public_key(), ["RS256"], options={"verify_aud": False}))
            except jwt.PyJWTError:
                self.answer({"error": "invalid_token"}, 401)
        elif at == f"{oidc}/logout":
            to = query.get("post_logout_redirect_uri")
            self.answer(None, 302 if to else 200, [("Location", to)] if to else [])
        else:
            self.answer({"error": "not_found"}, 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        at = f"http://127.0.0.1:{port}{urlsplit(self.path).path}"
        try:
            if at == f"{oidc}/token":
                self.answer(token(dict(parse_qsl(body)), self.headers.get("Authorization", "")))
            elif self.path == "/test/token":
                ask = json.loads(body or "{}")
                self.answer({"access_token": sign(ask.get("claims", {}), ask.get("header"), ask.get("lifetime", lifetime))})
            elif self.path == "/test/rotate":
                rotate()
                self.answer(jwks())
            else:
                self.answer({"error": "not_found"}, 404)
        except Refused as r:
            self.answer({"error": r.error}, r.status)


rotate()
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
PY
  spawn "$cache/openid-2.10.1/bin/python" "$dir/provider.py" "$realm" "$port"
  await 120 web "http://127.0.0.1:$port/realms/weir/.well-known/openid-configuration"
  say "OIDC_ISSUER=http://127.0.0.1:$port/realms/weir"
}

main "$@"
