//! A stop that misses says so: what was looked for, whether it exists, and what is in progress.

use crate::approvals::parked;
use crate::common::*;
use crate::house::{Answered, answered};

/// A server with a run of ada's in the session `s` of the app `shop`.
async fn adas() -> (House, String) {
    let house = House::silent().await;
    let run = house.start(json!({"user": "ada", "session": "s"})).await;
    (house, run)
}

async fn is_running(house: &House, run: &str) -> bool {
    let id = andon_runtime::RunId::new(run).unwrap();
    house.runtime.find_in_progress(&id).is_some_and(|run| !run.cord().is_pulled())
}

/// Checks P7 and P9.
#[tokio::test]
async fn an_app_that_is_not_there_is_an_error_that_names_those_that_are_and_stops_and_holds_nothing() {
    let (house, run) = adas().await;
    house.server.apps().refuse("bank", "its file is broken");
    let held = |app: &str| json!({"state": "held", "app": app});
    let told = [
        house.post("/v1/cancel", json!({"app": "shpo"})).await,
        house.post("/v1/cancel", json!({"app": "shpo", "user": "ada", "wait": true})).await,
        house.put("/v1/line", held("shpo")).await,
        house.put("/v1/line", json!({"state": "held", "app": "shpo", "cancel": true, "wait": true})).await,
        house.put("/v1/line", json!({"state": "open", "app": "shpo"})).await,
        house.post("/v1/runs", json!({"app": "shpo", "input": "x"})).await,
    ];
    for (status, problem) in told {
        assert_eq!((status, problem["type"].as_str()), (StatusCode::NOT_FOUND, Some("urn:andon:no-such-app")));
        assert_eq!((&problem["apps"], &problem["did_you_mean"]), (&json!(["bank", "shop"]), &json!({"app": "shop"})));
        let detail = problem["detail"].as_str().unwrap();
        assert!(["shpo", "bank", "shop", "did you mean"].iter().all(|word| detail.contains(word)), "{detail}");
    }
    assert_eq!(house.get("/v1/line").await.1["holds"], json!([]));
    assert!(is_running(&house, &run).await);
    // An app that cannot be run now exists all the same.
    assert_eq!(house.post("/v1/cancel", json!({"app": "bank"})).await.0, StatusCode::OK);
    assert_eq!(house.put("/v1/line", held("bank")).await.0, StatusCode::OK);
}

/// Checks P7 and P9.
#[tokio::test]
async fn a_removed_app_exists_while_its_runs_continue_and_its_hold_can_be_opened_afterwards() {
    let (house, run) = adas().await;
    house.server.apps().remove("shop");
    assert_eq!(house.put("/v1/line", json!({"state": "held", "app": "shop"})).await.0, StatusCode::OK);
    let (status, told) = house.post("/v1/cancel", json!({"app": "shop", "user": "Ada"})).await;
    assert_eq!((status, &told["did_you_mean"]), (StatusCode::OK, &json!({"app": "shop", "user": "ada"})), "{told}");
    let (status, told) = house.post("/v1/cancel", json!({"app": "shop", "wait": true})).await;
    assert_eq!((status, &told["cancelled"], &told["settled"]), (StatusCode::OK, &json!(1), &json!(true)), "{told}");
    house.settled(&run).await;
    assert_eq!(house.post("/v1/cancel", json!({"app": "shop"})).await.0, StatusCode::NOT_FOUND);
    assert_eq!(house.put("/v1/line", json!({"state": "open", "app": "shop"})).await.0, StatusCode::OK);
    assert_eq!(house.put("/v1/line", json!({"state": "open", "app": "shop"})).await.0, StatusCode::NOT_FOUND);
}

/// Checks P7 and P9.
#[tokio::test(start_paused = true)]
async fn an_app_that_is_not_served_exists_while_a_run_waits_for_it() {
    let inside = parked().await;
    let (status, told) = inside.put("/v1/line", json!({"state": "held", "app": "shop"})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let (status, told) = inside.post("/v1/cancel", json!({"user": "Local"})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!((&told["others"], &told["did_you_mean"]), (&json!(1), &json!({"user": "local"})), "{told}");
    let (status, problem) = inside.post("/v1/cancel", json!({"app": "shpo"})).await;
    assert_eq!((status, &problem["apps"]), (StatusCode::NOT_FOUND, &json!(["other", "shop"])), "{problem}");
    let (status, told) = inside.post("/v1/cancel", json!({"app": "shop"})).await;
    assert_eq!((status, &told["cancelled"], &told["settled"]), (StatusCode::OK, &json!(1), &json!(true)), "{told}");
    assert_eq!(inside.post("/v1/cancel", json!({"app": "shop"})).await.0, StatusCode::NOT_FOUND);
}

/// Checks P7 and P9.
#[tokio::test]
async fn a_user_or_session_of_which_nothing_is_on_record_is_not_said_to_have_settled() {
    let (house, run) = adas().await;
    let misses = [
        (json!({"user": "Ada"}), "all runs of the user Ada", json!({"user": "ada"})),
        (json!({"user": "adda"}), "all runs of the user adda", json!({"user": "ada"})),
        (json!({"user": "zoe"}), "all runs of the user zoe", Value::Null),
        (json!({"session": "S"}), "all runs in the session S", json!({"session": "s"})),
        (
            json!({"app": "shop", "user": "Ada", "session": "s"}),
            "all runs in the session s of the user Ada in the app shop",
            json!({"app": "shop", "user": "ada", "session": "s"}),
        ),
        (json!({"all": true, "tenant": "loca"}), "all runs of the tenant loca", json!({"tenant": "local"})),
    ];
    for (mut selector, looked_for, meant) in misses {
        selector["wait"] = true.into();
        let (status, told) = house.post("/v1/cancel", selector.clone()).await;
        assert_eq!((status, &told["looked_for"]), (StatusCode::OK, &json!(looked_for)), "{told}");
        assert_eq!(
            (&told["cancelled"], &told["settled"], &told["known"], &told["others"], &told["did_you_mean"]),
            (&json!(0), &json!(false), &json!(false), &json!(1), &meant),
            "{selector}: {told}"
        );
    }
    assert!(is_running(&house, &run).await);
}

/// Checks P7 and P9.
#[tokio::test]
async fn a_cancel_reports_what_it_reached_and_what_still_runs() {
    let (house, _) = adas().await;
    house.start(json!({"user": "bob"})).await;
    let cancel = async |selector: Value| house.post("/v1/cancel", selector).await.1;
    let told = cancel(json!({"user": "ada", "wait": true})).await;
    let asked_by = json!({"name": "local", "reach": "everything on this server"});
    assert_eq!((&told["cancelled"], &told["settled"], &told["others"]), (&json!(1), &json!(true), &json!(1)), "{told}");
    assert_eq!((&told["looked_for"], &told["asked_by"]), (&json!("all runs of the user ada"), &asked_by), "{told}");
    // Hers have settled, and the server knows it.
    let told = cancel(json!({"user": "ada"})).await;
    assert_eq!((&told["cancelled"], &told["settled"], &told["known"]), (&json!(0), &json!(true), &json!(true)));
    let told = cancel(json!({"all": true, "wait": true})).await;
    assert_eq!((&told["looked_for"], &told["others"]), (&json!("everything on this server"), &json!(0)), "{told}");
    let told = cancel(json!({"all": true})).await;
    assert_eq!((&told["cancelled"], &told["settled"], &told["others"]), (&json!(0), &json!(true), &json!(0)), "{told}");
}

/// Checks P7 and P9.
#[tokio::test]
async fn a_hold_on_nobody_proves_nothing() {
    let (house, run) = adas().await;
    let (status, line) = house.put("/v1/line", json!({"state": "held", "user": "Ada"})).await;
    assert_eq!((status, line["stopped"].is_null()), (StatusCode::OK, true), "{line}");
    assert_eq!(
        (&line["aim"]["looked_for"], &line["aim"]["known"], &line["aim"]["did_you_mean"]),
        (&json!("all runs of the user Ada"), &json!(false), &json!({"user": "ada"})),
        "{line}"
    );
    let proof = json!({"state": "held", "user": "Ada", "cancel": true, "wait": true});
    let (status, line) = house.put("/v1/line", proof).await;
    let stopped = &line["stopped"];
    assert_eq!((status, &stopped["settled"], &stopped["others"]), (StatusCode::OK, &json!(false), &json!(1)), "{line}");
    assert!(is_running(&house, &run).await);
    let (_, line) = house.put("/v1/line", json!({"state": "held", "cancel": true, "wait": true})).await;
    let stopped = &line["stopped"];
    assert_eq!((&stopped["settled"], &stopped["others"]), (&json!(true), &json!(0)), "{line}");
    assert_eq!(stopped["looked_for"], "everything on this server");
    assert!(house.get("/v1/line").await.1["aim"].is_null());
}

#[tokio::test]
async fn adks_cancel_of_an_app_that_is_not_there_names_those_that_are() {
    let (house, run) = adas().await;
    let (status, told) = house.post("/apps/shpo/users/ada/sessions/s:cancel", json!({})).await;
    let detail = told["detail"].as_str().unwrap();
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(detail.contains("no app shpo") && detail.contains("shop"), "{detail}");
    let (status, told) = house.post("/apps/shop/users/Ada/sessions/s:cancel", json!({})).await;
    let detail = told["detail"].as_str().unwrap();
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(
        detail.starts_with("Nothing that you may stop is running in session: s") && detail.contains("1 other run"),
        "{detail}"
    );
    assert!(is_running(&house, &run).await);
}

/// A server that requires keys, with a run of ada's and one of bob's, and one of ada's in another tenant.
struct Guarded {
    house: House,
    ada: (String, String),
}

impl Guarded {
    async fn new() -> Self {
        let options = Options::new().auth(true);
        let answers = std::iter::repeat_with(endless).take(9);
        let house = House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await;
        let bank = Agent::builder().name("bank").model(ScriptedModel::new([]));
        house.server.apps().put(bank.runtime(&house.runtime).build().unwrap(), None);
        let runs = ["run:create", "run:read", "run:cancel"];
        let guarded = Self { ada: key(&house, "ada", "local", &runs).await, house };
        for (name, tenant) in [("ada", "local"), ("bob", "local"), ("ada", "south")] {
            let (_, key) = key(&guarded.house, name, tenant, &runs).await;
            let order = json!({"app": "shop", "session": "s", "input": "Go."});
            let (status, run) = guarded.send(&key, Method::POST, "/v1/runs", order).await;
            assert_eq!(status, StatusCode::CREATED, "{run}");
        }
        guarded
    }

    async fn send(&self, key: &str, method: Method, path: &str, body: Value) -> Answered {
        let request = self.house.request(method, path).bearer_auth(key).json(&body);
        answered(request.send().await.unwrap()).await
    }

    async fn cancel(&self, key: &str, selector: Value) -> Answered {
        self.send(key, Method::POST, "/v1/cancel", selector).await
    }

    fn in_progress(&self) -> usize {
        self.house.runtime.in_progress().iter().filter(|run| !run.cord().is_pulled()).count()
    }
}

/// A key: its id and the key itself.
async fn key(house: &House, name: &str, tenant: &str, scopes: &[&str]) -> (String, String) {
    let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
    let new = NewKey::new(name.to_owned(), scopes).tenant(tenant.to_owned());
    house.key(new).await
}

/// Checks P7, P9 and P11.
#[tokio::test]
async fn another_users_name_looks_unknown_and_nothing_of_others_is_counted() {
    let guarded = Guarded::new().await;
    let (id, ada) = &guarded.ada;
    let (bobs, nobodys) =
        (guarded.cancel(ada, json!({"user": "bob"})).await, guarded.cancel(ada, json!({"user": "bub"})).await);
    assert_eq!(bobs.1.to_string().replace("bob", "bub"), nobodys.1.to_string());
    let (status, told) = bobs;
    assert_eq!((status, &told["settled"], &told["known"]), (StatusCode::OK, &json!(false), &json!(false)), "{told}");
    // She may only know of her own run.
    assert_eq!((&told["others"], &told["did_you_mean"]), (&json!(1), &Value::Null), "{told}");
    assert_eq!(told["asked_by"], json!({"name": "ada", "key": id, "reach": "all of ada's runs"}));
    assert_eq!(guarded.in_progress(), 3);
    let (_, told) = guarded.cancel(ada, json!({"app": "bank"})).await;
    assert_eq!((&told["looked_for"], &told["others"]), (&json!("all of ada's runs in the app bank"), &json!(1)));
    let (_, told) = guarded.cancel(ada, json!({"all": true, "wait": true})).await;
    assert_eq!((&told["looked_for"], &told["cancelled"]), (&json!("all of ada's runs"), &json!(1)), "{told}");
    assert_eq!((&told["settled"], &told["others"]), (&json!(true), &json!(0)), "{told}");
    assert_eq!(guarded.in_progress(), 2);
}

#[tokio::test]
async fn a_run_names_its_tenant_to_those_of_another_tenant() {
    let guarded = Guarded::new().await;
    let (_, admin) = key(&guarded.house, "ops", "local", &["admin"]).await;
    let get = async |path: &str| {
        let request = guarded.house.request(Method::GET, path).bearer_auth(&admin);
        answered(request.send().await.unwrap()).await.1
    };
    let list = get("/v1/runs").await;
    let named = |run: &Value| (run["user"].clone(), run["tenant"].clone());
    let runs = list["runs"].as_array().unwrap();
    let wanted = [(json!("ada"), json!("south")), (json!("bob"), Value::Null), (json!("ada"), Value::Null)];
    assert_eq!(runs.iter().map(named).collect::<Vec<_>>(), wanted, "newest first: {list}");
    let path = format!("/v1/runs/{}", runs[0]["run_id"].as_str().unwrap());
    let run = get(&path).await;
    assert_eq!(run["tenant"], "south", "{run}");
}

/// Checks P7, P9 and P11.
#[tokio::test]
async fn each_key_is_told_how_far_it_reaches() {
    let guarded = Guarded::new().await;
    let (_, admin) = key(&guarded.house, "ops", "local", &["admin"]).await;
    let (_, backend) = key(&guarded.house, "backend", "south", &["run:cancel", "impersonate"]).await;
    let (_, told) = guarded.cancel(&admin, json!({"user": "nobody"})).await;
    // There are other tenants, so the response must say which one was searched.
    assert_eq!(
        (&told["looked_for"], &told["others"]),
        (&json!("all runs of the user nobody of the tenant local"), &json!(3))
    );
    let (_, told) = guarded.cancel(&admin, json!({"user": "ada", "tenant": "north"})).await;
    assert_eq!(
        (&told["known"], &told["did_you_mean"]),
        (&json!(false), &json!({"user": "ada", "tenant": "local"})),
        "{told}"
    );
    let (_, told) = guarded.cancel(&backend, json!({"all": true})).await;
    assert_eq!(
        (&told["looked_for"], &told["cancelled"]),
        (&json!("all runs of the tenant south"), &json!(1)),
        "{told}"
    );
    let (_, told) = guarded.cancel(&admin, json!({"all": true, "tenant": "local"})).await;
    assert_eq!(
        (&told["looked_for"], &told["cancelled"]),
        (&json!("all runs of the tenant local"), &json!(2)),
        "{told}"
    );
    let (_, told) = guarded.cancel(&admin, json!({"all": true})).await;
    assert_eq!(told["looked_for"], "everything on this server");
}

/// Checks P11.
#[tokio::test]
async fn apps_are_named_only_to_those_who_may_list_them_and_runs_of_others_make_no_app_known() {
    let guarded = Guarded::new().await;
    let (_, blind) = key(&guarded.house, "ada", "local", &["run:cancel"]).await;
    let (status, problem) = guarded.cancel(&blind, json!({"app": "bonk"})).await;
    assert_eq!((status, &problem["did_you_mean"]), (StatusCode::NOT_FOUND, &Value::Null), "{problem}");
    assert_eq!(problem["apps"], json!(["shop"]), "one in which her own run goes on: {problem}");
    let (_, problem) = guarded.cancel(&guarded.ada.1, json!({"app": "bonk"})).await;
    assert_eq!(problem["apps"], json!(["bank", "shop"]), "{problem}");
    // The app was removed, and bob's run in it goes on.
    guarded.house.server.apps().remove("shop");
    let (status, _) = guarded.cancel(&guarded.ada.1, json!({"all": true, "wait": true})).await;
    assert_eq!(status, StatusCode::OK);
    let (status, problem) = guarded.cancel(&guarded.ada.1, json!({"app": "shop"})).await;
    assert_eq!((status, &problem["apps"]), (StatusCode::NOT_FOUND, &json!(["bank"])), "{problem}");
    let (_, admin) = key(&guarded.house, "ops", "local", &["admin"]).await;
    let (status, told) = guarded.cancel(&admin, json!({"app": "shop"})).await;
    assert_eq!((status.is_success(), &told["cancelled"]), (true, &json!(1)), "{told}");
}
