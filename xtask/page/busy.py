"""How long a page is unresponsive: the long tasks of its thread, and how long each actually worked.

On a busy machine a task takes longer than it works. So the page's own report of its long tasks is compared with the CPU time of the
process, read a hundred times per second; the result is how long a task would take with a core to itself.
"""

import bisect
import threading
import time

TASKS = """
  window.tasks = [];
  new PerformanceObserver((list) => {
    for (const {duration, startTime} of list.getEntries()) window.tasks.push([performance.timeOrigin + startTime, duration]);
  }).observe({entryTypes: ['longtask']});
"""


class Busy:
    """Watches the open page until `longest` is called."""

    def __init__(self, person):
        self.person = person
        self.samples = {process: ([], []) for process in person.browser.renderers()}
        self.is_over = threading.Event()
        person.ask(TASKS)
        threading.Thread(target=self.look, daemon=True).start()

    def look(self):
        while not self.is_over.wait(0.01):
            for process, (times, ran) in self.samples.items():
                try:
                    with open(f"/proc/{process}/schedstat") as stat:
                        used = int(stat.read().split()[0]) / 1e6
                except OSError:
                    continue
                times.append(time.time() * 1000)
                ran.append(used)

    def longest(self):
        """The task in which the page worked longest, as (how long it worked, how long it took) in milliseconds."""
        tasks = self.person.ask("return window.tasks")
        self.is_over.set()
        return max(((self.worked(begin, begin + took), took) for begin, took in tasks), default=(0, 0))

    def worked(self, begin, end):
        """The most that any renderer worked between two times."""

        def of(times, ran):
            before = max(0, bisect.bisect_right(times, begin) - 1)
            after = min(len(times) - 1, bisect.bisect_left(times, end))
            return ran[after] - ran[before] if times else 0

        return min(end - begin, max(of(*samples) for samples in self.samples.values()))
