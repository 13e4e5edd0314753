"""ADK's own client against our server: `python client.py URL`. ADK's models read whatever comes back."""

import asyncio
import sys

import httpx
from google.adk.cli.adk_web_server import RunAgentRequest
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

APP, USER = "house", "ada"
# Nothing here takes so long, in seconds, unless it is broken.
PATIENCE = 120


class House:
    """The client, and the calls that it has no method for."""

    def __init__(self, url):
        self.client = AdkWebServerClient(base_url=url, timeout=PATIENCE)
        self.http = httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False)

    async def begin(self, **more):
        session = await self.client.create_session(app_name=APP, user_id=USER, **more)
        return session.id

    async def read(self, session) -> Session:
        return await self.client.get_session(app_name=APP, user_id=USER, session_id=session)

    def run(self, session, text, streaming=True):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        request = RunAgentRequest(
            app_name=APP, user_id=USER, session_id=session, new_message=message, streaming=streaming
        )
        return self.client.run_agent(request)

    async def cancel(self, session):
        return await self.http.post(f"/apps/{APP}/users/{USER}/sessions/{session}:cancel")


def words(event: Event) -> str:
    return "".join(part.text or "" for part in event.content.parts) if event.content and event.content.parts else ""


def same(told: Event, stored: Event):
    """What was told and what is stored are one and the same, but for the pieces."""
    assert told.model_dump(exclude={"partial"}) == stored.model_dump(exclude={"partial"}), (told, stored)


async def sessions(house):
    session = await house.begin(state={"k": 1})
    updated = await house.client.update_session(
        app_name=APP, user_id=USER, session_id=session, state_delta={"p": 2, "user:u": 3}
    )
    assert updated.state == {"k": 1, "p": 2, "user:u": 3}, updated.state
    assert updated.events[0].actions.state_delta == {"p": 2, "user:u": 3}
    assert (await house.read(session)).model_dump() == updated.model_dump()
    listed = (await house.http.get(f"/apps/{APP}/users/{USER}/sessions")).json()
    assert session in [Session.model_validate(one).id for one in listed]
    await house.client.delete_session(app_name=APP, user_id=USER, session_id=session)
    try:
        await house.read(session)
    except httpx.HTTPStatusError as error:
        assert error.response.status_code == 404
    else:
        raise AssertionError("a deleted session is there")
    version = await house.client.get_version_data()
    assert version["language"] == "rust", version


async def streaming(house):
    session = await house.begin()
    events = [event async for event in house.run(session, "stream 5 1")]
    pieces, last = [event for event in events if event.partial], events[-1]
    assert "".join(map(words, pieces)) == words(last) == "word0 word1 word2 word3 word4 ", events
    assert {event.id for event in events} == {last.id}
    stored = (await house.read(session)).events
    assert [event.author for event in stored] == ["user", APP]
    same(last, stored[-1])


async def tools(house):
    session = await house.begin()
    events = [event async for event in house.run(session, "tool_par 0.05", streaming=False)]
    calls, results = events[0].get_function_calls(), events[1].get_function_responses()
    assert len(calls) == 2 and [call.id for call in calls] == [result.id for result in results], events
    assert [result.response for result in results] == [{"slept": 0.05}, {"slept": 0.0}], results
    assert events[1].actions.state_delta == {"last_tool": "slow_async"}
    assert words(events[2]).startswith("tool said:")
    stored = await house.read(session)
    assert stored.state["last_tool"] == "slow_async"
    for told, kept in zip(events, stored.events[1:], strict=True):
        same(told, kept)


async def stopped_in_text(house):
    session = await house.begin()
    seen, cancelled = [], None
    async for event in house.run(session, "stream 100000 5"):
        seen.append(event)
        if len(seen) == 10:
            cancelled = await house.cancel(session)
            assert cancelled.status_code == 200, cancelled.text
    assert cancelled and seen[-1].error_code == "INVOCATION_ABORTED", seen[-1]
    stored = (await house.read(session)).events
    assert stored[-1].error_code == "INVOCATION_ABORTED"
    said = "".join(words(event) for event in seen if event.partial)
    assert words(stored[1]) == said and said.startswith("word0 word1 "), (said, stored)
    assert (await house.cancel(session)).status_code == 404
    again = [event async for event in house.run(session, "still there?", streaming=False)]
    assert words(again[-1]) == "echo: still there?"


async def stopped_in_a_tool(house):
    session = await house.begin()
    seen = []
    async for event in house.run(session, "tool_par 3000"):
        seen.append(event)
        if event.get_function_calls():
            # The quick one of the two tools is done when its change of state is there.
            while (await house.read(session)).state.get("last_tool") is None:
                await asyncio.sleep(0.01)
            assert (await house.cancel(session)).status_code == 200
    assert seen[-1].error_code == "INVOCATION_ABORTED", seen[-1]
    stored = (await house.read(session)).events
    calls = [call.id for event in stored for call in event.get_function_calls()]
    results = [result.id for event in stored for result in event.get_function_responses()]
    assert len(calls) == 2 and sorted(calls) == sorted(results), stored
    again = [event async for event in house.run(session, "hello", streaming=False)]
    assert words(again[-1]) == "echo: hello"


async def failing(house):
    session = await house.begin()
    # What a provider refuses is an event, as in ADK, and nothing more.
    told = [event async for event in house.run(session, "fail")]
    assert (told[-1].error_code, told[-1].error_message) == ("MODEL_ERROR", "the model was told to fail"), told
    same(told[-1], (await house.read(session)).events[-1])


async def leaving(house):
    session = await house.begin()
    async for event in house.run(session, "stream 100000 5"):
        break
    # Closing the client closes the connection, and that is a stop.
    await house.client.close()
    while not (stored := (await house.read(session)).events) or not stored[-1].error_code:
        await asyncio.sleep(0.02)
    assert stored[-1].error_code == "INVOCATION_ABORTED", stored[-1]


async def artifacts(house):
    session = await house.begin()
    body = {"filename": "n.txt", "artifact": {"text": "x"}, "customMetadata": {"k": 1}}
    saved = await house.http.post(f"/apps/{APP}/users/{USER}/sessions/{session}/artifacts", json=body)
    assert saved.status_code == 200, saved.text
    where = {"app_name": APP, "user_id": USER, "session_id": session, "artifact_name": "n.txt"}
    one = await house.client.get_artifact_version_metadata(**where, version=0)
    assert (one.version, one.custom_metadata) == (0, {"k": 1})
    assert await house.client.list_artifact_versions_metadata(**where) == [one]


async def main(url):
    cases = [sessions, streaming, tools, stopped_in_text, stopped_in_a_tool, failing, leaving, artifacts]
    for case in cases:
        house = House(url)
        await asyncio.wait_for(case(house), PATIENCE)
        print(f"client: {case.__name__} ok", flush=True)
        await house.client.close()
        await house.http.aclose()
    print(f"client: {len(cases)} cases")


asyncio.run(main(sys.argv[1]))
