#!/usr/bin/env python3
"""A service as you might have one: it is posted a number, and sends its factors back to weir as Cypher.

service.py PORT WEIR      PORT 0 is any free one; it is printed. WEIR is where weir serves, such as http://127.0.0.1:8080
"""

import http.server
import json
import sys
import urllib.request

QUERY = """
UNWIND $factors AS factor
MATCH (f), (n) WHERE id(f) = idFrom('number', factor) AND id(n) = idFrom('number', $number)
CREATE (f)-[:FACTOR_OF]->(n)
"""


def send(weir, number):
    factors = [factor for factor in range(1, number + 1) if number % factor == 0]
    body = json.dumps({"text": QUERY, "parameters": {"factors": factors, "number": number}}).encode()
    url = weir + "/api/v2/graph/quine/cypher:query"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        send(self.server.weir, data["value"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.weir = sys.argv[2]
    print(server.server_address[1], flush=True)
    server.serve_forever()
