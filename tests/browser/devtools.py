"""A headless Chromium over its debugging pipe: no port, no package, only the standard library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The browser's path; None without one."""
    named = os.environ.get("RUNGWISE_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Failure(Exception):
    """The browser answered with an error, or not in time."""


class Browser:
    """One browser with one page. Messages are JSON, each ended by a zero byte, on descriptors 3 (to it) and 4 (from it)."""

    def __init__(self, path, scripts=True):
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        self.profile = tempfile.mkdtemp(prefix="rungwise-browser-")
        options = [
            path,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={self.profile}",
            "about:blank",
        ]
        # The pipes become 3 and 4 in the browser, whatever they are here.
        command = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", command, "bash", *options],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.rest = b""
        self.last = 0
        self.events = []
        self.session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pipe in (self.write, self.read):
            os.close(pipe)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, deadline):
        """The next message from the browser."""
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self.read, 1 << 20) if ready else b""
            if not chunk:
                raise Failure("the browser did not answer" if not ready else "the browser ended")
            self.rest += chunk
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        """Sends one command and gives its result; events that come before are kept."""
        self.last += 1
        request = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            message = self.message(deadline)
            if message.get("id") != self.last:
                self.events.append(message)
            elif "error" in message:
                raise Failure(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def open(self, address, width, dark=False, media=""):
        """Shows a page in a window of that width, and waits until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=address)
        deadline = time.monotonic() + 60
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(deadline))

    def value(self, expression):
        """What an expression gives in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failure(answer["exceptionDetails"].get("exception", {}).get("description", str(answer)))
        return answer["result"].get("value")

    def complaints(self):
        """Errors and warnings on the console, exceptions, and everything that was asked of a network."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            method = event.get("method")
            if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(f"console: {parameters['args']}")
            elif method == "Runtime.exceptionThrown":
                found.append(f"exception: {parameters['exceptionDetails']['text']}")
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(f"log: {parameters['entry']['text']}")
            elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("file:", "data:")):
                found.append(f"network: {parameters['request']['url']}")
        return found

    def screenshot(self, path, clip=None):
        """The whole page, or a part of it, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        whole = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip or whole)
        self.save(path, answer)

    def pdf(self, path):
        """The page as it is printed."""
        self.save(path, self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True))

    @staticmethod
    def save(path, answer):
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))
