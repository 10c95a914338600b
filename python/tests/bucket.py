"""A store in memory that speaks enough of S3 for checkpoints: objects, ranges, lists and uploads in parts. Requests for
an object can be held, so that a process can be killed in the middle of one."""

import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class Bucket:
    """A bucket `runs`; `with Bucket() as b` serves it. `objects` has the content by key."""

    def __init__(self):
        self.objects, self.uploads, self.refuses = {}, {}, False
        self._held, self.is_held, self._go = None, threading.Event(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_exception):
        self._go.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def variables(self):
        """What says where the store is and who asks."""
        endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        keys = {"AWS_ACCESS_KEY_ID": "a-key", "AWS_SECRET_ACCESS_KEY": "a-secret", "AWS_REGION": "us-east-1"}
        return {"AWS_ENDPOINT_URL": endpoint, **keys}

    def names(self, prefix):
        """Objects below a prefix, without it."""
        return sorted(k.removeprefix(prefix) for k in self.objects if k.startswith(prefix))

    def hold(self, pattern):
        """From now on writes of objects whose key ends so wait, and are not carried out; `is_held` tells of the first."""
        self._held = re.compile(pattern + "$")
        self.is_held.clear()

    def let_go(self):
        """Writes are carried out again."""
        self._held = None

    def _is_admitted(self, key):
        if self._held is None or not self._held.search(key):
            return True
        self.is_held.set()
        self._go.wait()
        return False


def _handler(bucket):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_words):
            pass

        def _answer(self, status, body=b"", **headers):
            body = body if isinstance(body, bytes) else body.encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _error(self, status, code):
            self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")

        def _serve(self):
            length = int(self.headers.get("Content-Length", 0))
            body, url = self.rfile.read(length), urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
            name, _, key = unquote(url.path).lstrip("/").partition("/")
            if bucket.refuses:
                self._error(403, "InvalidAccessKeyId")
            elif name != "runs":
                self._error(404, "NoSuchBucket")
            elif self.command in ("PUT", "POST") and not bucket._is_admitted(key):
                self.close_connection = True
            else:
                getattr(self, "_" + self.command.lower())(key, query, body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

        def _get(self, key, query, _body):
            if not key:
                return self._list(query)
            if key not in bucket.objects:
                return self._error(404, "NoSuchKey")
            content, status, headers = bucket.objects[key], 200, {}
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if asked:
                first, last, size = int(asked[1]), int(asked[2] or len(content) - 1), len(content)
                content, status = content[first : last + 1], 206
                headers["Content_Range"] = f"bytes {first}-{first + len(content) - 1}/{size}"
            date = "Mon, 01 Jan 2024 00:00:00 GMT"
            self._answer(status, content, ETag='"1"', Last_Modified=date, **headers)

        _head = _get

        def _list(self, query):
            prefix, found = query.get("prefix", ""), ""
            for key in sorted(k for k in bucket.objects if k.startswith(prefix)):
                if "delimiter" not in query or "/" not in key.removeprefix(prefix):
                    when = "<LastModified>2024-01-01T00:00:00.000Z</LastModified>"
                    size = f"<Size>{len(bucket.objects[key])}</Size>"
                    found += f'<Contents><Key>{escape(key)}</Key>{when}<ETag>"1"</ETag>{size}</Contents>'
            self._answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>")

        def _put(self, key, query, body):
            if "uploadId" in query:
                bucket.uploads[query["uploadId"]][int(query["partNumber"])] = body
            else:
                bucket.objects[key] = body
            self._answer(200, ETag='"1"')

        def _post(self, key, query, body):
            if "uploads" in query:
                number = uuid.uuid4().hex
                bucket.uploads[number] = {}
                text = f"<Bucket>runs</Bucket><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
                self._answer(200, f"<InitiateMultipartUploadResult>{text}</InitiateMultipartUploadResult>")
            elif "uploadId" in query:
                parts = bucket.uploads.pop(query["uploadId"])
                bucket.objects[key] = b"".join(parts[n] for n in sorted(parts))
                self._answer(200, '<CompleteMultipartUploadResult><ETag>"1"</ETag></CompleteMultipartUploadResult>')
            elif "delete" in query:
                for name in re.findall("<Key>(.*?)</Key>", body.decode()):
                    bucket.objects.pop(name, None)
                self._answer(200, "<DeleteResult></DeleteResult>")
            else:
                self._error(400, "InvalidRequest")

        def _delete(self, key, query, _body):
            if "uploadId" in query:
                bucket.uploads.pop(query["uploadId"], None)
            else:
                bucket.objects.pop(key, None)
            self._answer(204)

    return Handler
