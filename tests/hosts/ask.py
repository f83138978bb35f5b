"""Ask a web server of this host: `ask.py PORT QUERY VARIABLES` prints the data of its answer."""

import json
import sys
import urllib.request


def main() -> None:
    port, query, variables = sys.argv[1:]
    body = json.dumps({"query": query, "variables": json.loads(variables)}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://localhost:{port}/graphql", body, headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        sys.stdout.write(json.dumps(json.load(answer)["data"]))


if __name__ == "__main__":
    main()
