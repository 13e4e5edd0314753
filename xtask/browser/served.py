"""What a server has served to a page, from what crossed the network: its answers, and the requests that got none.

It is told with the names and numbers of the protocols. What a browser writes of it into its console changes with its version.
"""

import urllib.parse

# A request that the page itself took back, and one that the page's own policy did not let out.
TAKEN_BACK, NOT_LET_OUT = "net::ERR_ABORTED", "csp"


def refusals(crossed):
    """The answers that are an error, each as `STATUS METHOD PATH`."""
    asked = {it["requestId"]: it["request"] for method, it in crossed if method == "Network.requestWillBeSent"}
    # Of an answer that the browser does not hand to the page there is only the second account.
    status = {
        "Network.responseReceived": lambda it: it["response"]["status"],
        "Network.responseReceivedExtraInfo": lambda it: it["statusCode"],
    }
    # Each once, in order.
    answers = dict.fromkeys((it["requestId"], status[method](it)) for method, it in crossed if method in status)
    return [f"{code} {asked[request]['method']} {path(asked[request]['url'])}" for request, code in answers if code >= 400 and request in asked]


def unanswered(crossed):
    """The requests that broke off, each as `ERROR PATH`. Sockets are not among them: one that a page lets go of while it is being opened
    looks the same as one that was refused."""
    asked = {it["requestId"]: it["request"]["url"] for method, it in crossed if method == "Network.requestWillBeSent"}
    return [
        f"{it['errorText'].removeprefix('net::')} {path(asked.get(it['requestId'], ''))}"
        for method, it in crossed
        if method == "Network.loadingFailed" and not is_meant(it)
    ]


def is_meant(failed):
    return failed.get("canceled") or failed["errorText"] == TAKEN_BACK or failed.get("blockedReason") == NOT_LET_OUT


def streams(crossed, place):
    """The event streams that a path has served, in order: each `open`, `whole` or `left`, if the page hung up."""
    begun = [
        it["requestId"]
        for method, it in crossed
        if method == "Network.responseReceived"
        and path(it["response"]["url"]) == place
        and it["response"]["status"] == 200
        and it["response"]["mimeType"] == "text/event-stream"
    ]
    ends = {"Network.loadingFinished": "whole", "Network.loadingFailed": "left"}
    ended = {it["requestId"]: ends[method] for method, it in crossed if method in ends and (method != "Network.loadingFailed" or is_meant(it))}
    return [ended.get(request, "open") for request in begun]


def path(url):
    return urllib.parse.urlsplit(url).path
