"""The review page in a browser, as a person and a test use it. Every look waits until it sees what it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgqueue.console import Console
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
TIMEOUT = 30.0
PASSING = (
    StaleElementReferenceException,
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
)

# The texts of visible elements, without spaces at their ends.
TEXTS = """
return [...document.querySelectorAll(arguments[0])]
  .filter((each) => each.checkVisibility()).map((each) => each.innerText.replace(/\\s+/g, " ").trim());
"""
# The first visible button or link with that name, inside the element of a selector or, without one, the dialog on top.
CONTROL = """
const [name, selector] = arguments;
const dialog = [...document.querySelectorAll("dialog[open]")].pop();
const area = selector ? document.querySelector(selector) : dialog ?? document;
return [...(area?.querySelectorAll("button, a, [role=button]") ?? [])].find((each) =>
  each.checkVisibility() && (each.ariaLabel ?? each.innerText).replace(/\\s+/g, " ").trim() === name);
"""

# Keeps the answer to the next request with that call back until `held.release`.
HOLD = """
const real = window.fetch;
const held = (window.held = { isWaiting: false });
const gate = new Promise((resolve) => { held.release = resolve; });
window.fetch = async (path, options) => {
  const isHeld = !held.isWaiting && options?.body?.includes(`"call":"${name}"`);
  if (isHeld) held.isWaiting = true;
  const response = await real(path, options);
  if (isHeld) {
    held.isRead = true;
    await gate;
  }
  return response;
};
"""


class Page:
    """A tab of the browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.expected_errors: list[str] = []
        self._errors: list[str] = []

    # ---------------------------------------------------------------- opening

    def open(self, console: Console, hash: str = "") -> None:
        """Opens the address of a console, and the view of `hash`."""
        self.driver.get(console.url)
        self.until(lambda: "token" not in self.driver.current_url, "the address without the token")
        if hash:
            self.go(hash)
        self.until(lambda: self.texts("main h1, main h2, main [role=alert]"), "a view")

    def leave(self) -> None:
        """Leaves the page, before its console ends."""
        self._errors += [entry["message"] for entry in self._log() if entry["level"] == "SEVERE"]
        self.driver.get("about:blank")
        self._log()

    def _log(self) -> list[dict[str, Any]]:
        """Returns what the browser logged since the last call."""
        entries: list[dict[str, Any]] = self.driver.execute("getLog", {"type": "browser"})["value"]
        return entries

    def errors(self) -> list[str]:
        """Returns what the browser reported as an error, without what was expected."""
        return [text for text in self._errors if not any(part in text for part in self.expected_errors)]

    def go(self, hash: str) -> None:
        self.driver.execute_script("location.hash = arguments[0]", hash)

    def size(self, width: int, height: int, *, dark: bool = False, reduced: bool = True) -> None:
        """Sets the size of the window, and what the person prefers."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"},
        ]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def offline(self, offline: bool) -> None:
        """Cuts the browser off, or connects it again."""
        conditions = {"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    # ---------------------------------------------------------------- looking

    def script(self, code: str, *arguments: object) -> Any:
        return self.driver.execute_script(code, *arguments)

    def until(self, condition: Callable[[], T], what: object = "", *, timeout: float = TIMEOUT) -> T:
        """Waits until the condition is true, and returns its value."""

        def check(_: object) -> T:
            return condition()

        waiting = WebDriverWait(self.driver, timeout, poll_frequency=0.02, ignored_exceptions=PASSING)
        try:
            return waiting.until(check)
        except TimeoutException:
            raise AssertionError(f"not seen: {what}; the page shows: {self.texts('body')}") from None

    def texts(self, selector: str) -> list[str]:
        """Returns the texts of the visible elements, at this moment."""
        texts: list[str] = self.script(TEXTS, selector)
        return texts

    def text(self, selector: str) -> str:
        """Returns the text of the first visible element, at this moment; "" without one."""
        return next(iter(self.texts(selector)), "")

    def see(self, selector: str, text: str | Callable[[str], bool], *, timeout: float = TIMEOUT) -> str:
        """Waits for a visible element with that text."""

        def find() -> str | None:
            texts = self.texts(selector)
            return next((each for each in texts if (each == text if isinstance(text, str) else text(each))), None)

        found = self.until(find, f"{selector} with {text}", timeout=timeout)
        assert found is not None
        return found

    def see_texts(self, selector: str, texts: list[str]) -> None:
        """Waits until the visible elements have these texts."""
        self.until(lambda: self.texts(selector) == texts, f"{selector} with {texts}")

    def gone(self, selector: str, *, timeout: float = TIMEOUT) -> None:
        """Waits until no such element is visible."""
        self.until(lambda: not self.texts(selector), f"no {selector}", timeout=timeout)

    def element(self, selector: str) -> WebElement:
        return self.until(lambda: self.driver.find_element(By.CSS_SELECTOR, selector), selector)

    # ---------------------------------------------------------------- acting

    def hold(self, call: str) -> None:
        """Keeps the answer to the next request with that call back until `release`."""
        self.script(f"const name = arguments[0];{HOLD}", call)

    def until_held(self) -> None:
        """Waits until the server has given the answer that is kept back."""
        self.until(lambda: self.script("return window.held.isRead"), "the answer to keep back")

    def release(self) -> None:
        """Lets the page have the answer that was kept back, and waits until it has taken that."""
        self.script("window.held.release()")
        self.unanswered()

    def click_ten_times(self, selector: str) -> None:
        """Clicks quicker than a person can."""
        self.script("const e = document.querySelector(arguments[0]); for (let n = 0; n < 10; n++) e.click();", selector)

    def click(self, selector: str) -> None:
        """Clicks on the first visible element."""

        def act() -> bool:
            found = [each for each in self.driver.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()]
            if found:
                found[0].click()
            return bool(found)

        self.until(act, f"{selector} to click")

    def press(self, name: str, inside: str = "") -> None:
        """Clicks on the button or link with that name, in the dialog on top if there is one, or inside an element."""

        def act() -> bool:
            control = self.script(CONTROL, name, inside)
            if control:
                control.click()
            return bool(control)

        self.until(act, f"the button {name}")

    def has(self, name: str, inside: str = "") -> bool:
        """Whether a button or link with that name is visible at this moment."""
        return self.script(CONTROL, name, inside) is not None

    def row(self, id: str) -> str:
        """Returns the selector of the row or bubble of a message."""
        return f'[data-id="{id}"]'

    def write(self, selector: str, text: str) -> None:
        """Replaces the text of a field."""
        field = self.element(selector)
        field.click()
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        field.send_keys(text)

    def keys(self, *keys: str) -> None:
        """Presses keys where the focus is."""
        for key in keys:
            ActionChains(self.driver, duration=0).send_keys(key).perform()

    @property
    def focus(self) -> str:
        """The name of the element that has the focus."""
        name: str = self.script(
            'const e = document.activeElement; return (e.ariaLabel ?? "") || e.innerText || e.id || e.tagName;'
        )
        return " ".join(name.split())

    def unanswered(self) -> None:
        """Returns after the page has answered what happened until now: two frames and a round trip to the server."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            'const key = `Bearer ${sessionStorage.getItem("key")}`;'
            'const headers = {"Content-Type": "application/json", Authorization: key};'
            'fetch("/api/session", {method: "POST", headers, body: "{}"})'
            ".finally(() => requestAnimationFrame(() => requestAnimationFrame(() => done())));"
        )
