//! A proxy that the environment names: it is used for others and never for this machine, and is named when it fails.
//!
//! The environment is read once and belongs to a process, so what needs one runs in a process of its own.

use std::process::Command;

use andon_runtime::ModelErrorKind;

use crate::common::*;

const CHAT: Dialect = Dialect::OpenAiChat;

/// Runs an ignored test of this binary with a proxy at an address.
#[track_caller]
fn with_proxy(address: &str, test: &str) {
    let proxy = format!("http://user:canary-password@{address}");
    with_variables(&[("HTTP_PROXY", proxy.as_str()), ("HTTPS_PROXY", proxy.as_str())], test);
}

/// Runs an ignored test of this binary with these variables, and with no other proxy variables.
#[track_caller]
fn with_variables(variables: &[(&str, &str)], test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.env_remove("REQUEST_METHOD").envs(variables.iter().copied());
    let output = command.args(["--ignored", "--exact", test]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

/// An address on which nothing listens.
fn nobody() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_server_on_this_machine_is_never_asked_through_a_proxy() {
    with_proxy(&nobody(), "proxies::asks_a_server_on_this_machine");
}

#[tokio::test]
#[ignore = "run by another test, with a proxy in the environment"]
async fn asks_a_server_on_this_machine() {
    let provider = BadProvider::start(Protocol::Http1).await;
    provider.always(Script::reply(CHAT, &Reply::text(["hi"])));
    let model = model_of(&provider, Protocol::Http1, builder(CHAT));
    let by_name = provider.base_url().replace("127.0.0.1", "localhost");
    let by_name = builder(CHAT).base_url(by_name).key("k").build().unwrap();
    for model in [model, by_name] {
        let (pieces, error) = all(&mut call(&model)).await;
        assert_eq!((text(&pieces).as_str(), error), ("hi", None));
    }
}

#[test]
fn an_unknown_host_name_is_reported() {
    with_variables(&[], "proxies::asks_for_an_unknown_host_name");
}

#[tokio::test]
#[ignore = "run by another test, without a proxy in the environment"]
async fn asks_for_an_unknown_host_name() {
    crate::refusals::never_reached("http://no-such-host.invalid/v1", "cannot be resolved").await;
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named_without_its_password() {
    with_proxy(&nobody(), "proxies::asks_through_a_proxy_that_is_not_there");
}

#[tokio::test]
#[ignore = "run by another test, with a proxy in the environment"]
async fn asks_through_a_proxy_that_is_not_there() {
    let proxy = std::env::var("HTTP_PROXY").unwrap();
    let proxy = proxy.rsplit('@').next().unwrap();
    for address in ["http://models.example/v1", "https://models.example/v1"] {
        let model = builder(CHAT).base_url(address).key("k").build().unwrap();
        let mut answer = call(&model);
        let error = all(&mut answer).await.1.unwrap();
        assert!(error.message.contains(&format!("through the proxy {proxy}: nothing listens")), "{error}");
        assert!(error.message.contains("models.example") && !error.message.contains("canary"), "{error}");
        assert!(matches!(error.kind, ModelErrorKind::Retryable { .. }), "{error:?}");
        assert_eq!(answer.usage_so_far(), Usage::NONE);
    }
}

#[test]
fn another_machine_is_asked_through_the_proxy() {
    let proxy = BadProvider::start_on_thread(Protocol::Http1);
    proxy.always(Script::reply(CHAT, &Reply::text(["through the proxy"])));
    with_proxy(&proxy.address().to_string(), "proxies::asks_another_machine");
    assert_eq!(proxy.all_seen()[0].header("host"), Some("models.example"));
}

#[tokio::test]
#[ignore = "run by another test, with a proxy in the environment"]
async fn asks_another_machine() {
    let model = builder(CHAT).base_url("http://models.example/v1").key("k").build().unwrap();
    let (pieces, error) = all(&mut call(&model)).await;
    assert_eq!((text(&pieces).as_str(), error), ("through the proxy", None));
}
