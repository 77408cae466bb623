"""Opens pages of `sim report` in a headless browser, as a reader would.

    python3 tests/browser/pages.py SIM [--screenshots DIR]

SIM is the binary. Checked are, light and dark, 1280 and 390 px wide, with scripts on and off: nothing on the console, nothing
asked of a network, no horizontal scroll of the page, every chart there with its name, its axes with units and its figures, and
texts of a chart that neither overlap nor leave it. Without a browser it says `skipped` and ends with 0.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import devtools

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What a reader can see of a page. Script that the driver brings runs even where the page's own may not.
LOOK = """(() => {
  const box = node => node.getBoundingClientRect();
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const charts = [...document.querySelectorAll('svg.chart')].map(svg => {
    const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim() !== '');
    const outside = texts.filter(text => {
      const [inner, outer] = [box(text), box(svg)];
      return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.top < outer.top - 1 ||
        inner.bottom > outer.bottom + 1;
    });
    const clashes = [];
    texts.forEach((one, place) => texts.slice(place + 1).forEach(other => {
      if (overlap(box(one), box(other))) clashes.push(one.textContent.trim() + ' / ' + other.textContent.trim());
    }));
    const named = (svg.getAttribute('aria-labelledby') || '').split(' ').map(id => document.getElementById(id));
    return {
      role: svg.getAttribute('role'),
      title: named.every(Boolean) ? named[0].textContent : null,
      described: named.length === 2 && named.every(Boolean) && named[1].textContent.length > 20,
      texts: texts.map(text => text.textContent.trim()),
      marks: svg.querySelectorAll('rect,polyline,circle,polygon').length,
      figures: !!svg.closest('figure').querySelector('details table tbody td'),
      width: box(svg).width,
      outside: outside.map(text => text.textContent.trim()),
      clashes,
    };
  });
  const visible = node => node.checkVisibility ? node.checkVisibility() : true;
  return {
    scroll: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    headings: [...document.querySelectorAll('h1,h2,h3')].map(node => node.tagName + ' ' + node.textContent),
    landmarks: ['header', 'nav', 'main', 'footer'].filter(name => document.querySelectorAll(name).length !== 1),
    headless: [...document.querySelectorAll('table')].filter(table =>
      !table.caption || [...table.querySelectorAll('th')].some(head => !head.getAttribute('scope'))).length,
    unnamed: [...document.querySelectorAll('[role=region]')].filter(node =>
      !node.getAttribute('aria-label') && !node.getAttribute('aria-labelledby')).length,
    scripts: document.scripts.length,
    background: getComputedStyle(document.documentElement).backgroundColor,
    ink: getComputedStyle(document.body).color,
    text: getComputedStyle(document.querySelector('svg.chart text') || document.body).fill,
    small: [...document.querySelectorAll('p,li,td,th,dd,figcaption')].filter(node =>
      visible(node) && parseFloat(getComputedStyle(node).fontSize) < 12).length,
    charts,
  };
})()"""

# Axes whose unit is a count of the thing named.
COUNTS = ("steps", "requests")


class Pages:
    """Pages, and what was found amiss with them."""

    def __init__(self, screenshots):
        self.screenshots = screenshots
        self.amiss = []

    def check(self, holds, message):
        if not holds:
            self.amiss.append(message)

    def look(self, browser, name, path, charts, scripts):
        for width in (1280, 390):
            for dark in (False, True):
                where = f"{name}, {width} px, {'dark' if dark else 'light'}, scripts {'on' if scripts else 'off'}"
                browser.open(path.as_uri(), width, dark)
                seen = browser.value(LOOK)
                for complaint in browser.complaints():
                    self.check(False, f"{where}: {complaint}")
                self.page(where, seen, dark)
                self.check(len(seen["charts"]) >= charts, f"{where}: {len(seen['charts'])} charts, expected {charts}")
                for chart in seen["charts"]:
                    self.chart(f"{where}: {chart['title']}", chart)
                if self.screenshots and scripts:
                    theme = "dark" if dark else "light"
                    browser.screenshot(self.screenshots / f"{name}-{width}-{theme}.png")
        if self.screenshots and scripts:
            browser.pdf(self.screenshots / f"{name}.pdf")

    def page(self, where, seen, dark):
        self.check(seen["scroll"] <= 0, f"{where}: the page scrolls sideways by {seen['scroll']} px")
        self.check(seen["scripts"] == 0, f"{where}: it holds scripts")
        self.check(not seen["landmarks"], f"{where}: not one of each: {seen['landmarks']}")
        self.check(sum(head.startswith("H1") for head in seen["headings"]) == 1, f"{where}: not one h1")
        self.check(seen["headless"] == 0, f"{where}: {seen['headless']} tables without caption or scopes")
        self.check(seen["unnamed"] == 0, f"{where}: {seen['unnamed']} regions without a name")
        self.check(seen["small"] == 0, f"{where}: {seen['small']} texts smaller than 12 px")
        light = [int(part) for part in seen["background"][4:-1].split(",")[:3]]
        self.check((sum(light) < 384) == dark, f"{where}: the background is {seen['background']}")
        if seen["charts"]:
            ink = [int(part) for part in seen["text"][4:-1].split(",")[:3]]
            self.check((sum(ink) > 384) == dark, f"{where}: text of charts is {seen['text']}")

    def chart(self, where, chart):
        self.check(chart["role"] == "img" and chart["title"] and chart["described"], f"{where}: no name or description")
        self.check(chart["marks"] > 0 and len(chart["texts"]) > 4, f"{where}: an empty chart")
        self.check(chart["figures"], f"{where}: no table of its figures")
        self.check(not chart["outside"], f"{where}: texts leave the chart: {chart['outside']}")
        self.check(not chart["clashes"], f"{where}: texts overlap: {chart['clashes'][:4]}")
        axes = [text for text in chart["texts"] if ", " in text or text.split(" ")[0] in COUNTS]
        self.check(len(axes) >= 1, f"{where}: no axis names its unit: {chart['texts']}")


def run(sim, *arguments, cwd):
    done = subprocess.run([sim, *arguments], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"sim {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sim", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--screenshots", type=pathlib.Path)
    arguments = parser.parse_args()
    browser_path = devtools.find()
    if browser_path is None:
        print("skipped: no Chromium here, and RUNGWISE_BROWSER names none")
        return 0
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    pages = Pages(arguments.screenshots)
    with tempfile.TemporaryDirectory(prefix="rungwise-pages-") as folder:
        folder = pathlib.Path(folder)
        scenario, double = str(ROOT / "scenarios/chunked.toml"), str(ROOT / "tests/calibrate/double.toml")
        run(arguments.sim, "run", scenario, "--requests", "1000", "--out", "chunked", cwd=folder)
        run(arguments.sim, "run", scenario, "--requests", "200", "--seeds", "3", "--out", "seeds", cwd=folder)
        # Names that are long, and names that would be markup if they could.
        text = (ROOT / "scenarios/chunked.toml").read_text()
        names = {
            "engine default": "a long name of many words that goes on and on " * 2 + "and ends here",
            "textbook": "<script>console.error('" + "x" * 80 + "')</script>",
        }
        for name, other in names.items():
            text = text.replace(f'"{name}"', f'"{other}"')
        (folder / "names.toml").write_text(text)
        run(arguments.sim, "run", "names.toml", "--requests", "200", "--out", "names", cwd=folder)
        made = {
            "chunked": (["chunked"], 20),
            "profile": ([double], 3),
            "builtin": (["chunked/profile.toml"], 1),
            "names": (["names"], 20),
            "several": (["seeds", "chunked/profile.toml"], 20),
            "compared": (["--compare", "chunked", "chunked", "--format", "html"], 0),
        }
        for name, (inputs, _) in made.items():
            run(arguments.sim, "report", *inputs, "--out", f"{name}.html", cwd=folder)
        for scripts in (True, False):
            with devtools.Browser(browser_path, scripts) as browser:
                for name, (_, charts) in made.items():
                    pages.look(browser, name, folder / f"{name}.html", charts, scripts)
    for message in dict.fromkeys(pages.amiss):
        print(message)
    print(f"{len(made)} pages, light and dark, 1280 and 390 px, scripts on and off: ", end="")
    print("sound" if not pages.amiss else f"{len(pages.amiss)} faults")
    return 1 if pages.amiss else 0


if __name__ == "__main__":
    sys.exit(main())
