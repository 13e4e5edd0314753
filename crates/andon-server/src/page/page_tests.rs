use std::collections::BTreeSet;
use std::io::Read as _;

use andon_runtime::Runtime;
use axum::body::Body;
use axum::extract::Request;
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::{Options, Server};

async fn server(options: Options) -> Router {
    let runtime = Runtime::builder().one_lane().build();
    Server::new(&runtime, options).await.unwrap().mount("/", |_| None).router().unwrap()
}

async fn get_with(router: &Router, path: &str, headers: &[(HeaderName, &str)]) -> Response {
    let request = headers
        .iter()
        .fold(Request::get(path).header("host", "localhost"), |request, (name, value)| request.header(name, *value));
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn ask(router: &Router, path: &str) -> Response {
    get_with(router, path, &[]).await
}

async fn body(response: Response) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

fn leads_to(response: &Response) -> &str {
    assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
    response.headers()["location"].to_str().unwrap()
}

#[tokio::test]
async fn the_page_is_found_from_the_root_wherever_the_server_is_mounted() {
    let router = server(Options::default()).await;
    assert_eq!(leads_to(&ask(&router, "/").await), "ui/");
    assert_eq!(leads_to(&ask(&router, "/ui").await), "ui/");
    // Relative to the requested path, as a browser reads them.
    let mounted = Router::new().nest("/a/b", router);
    for (asked, there) in [("/a/b", "./b/ui/"), ("/a/b/ui", "ui/")] {
        assert_eq!(leads_to(&ask(&mounted, asked).await), there, "{asked}");
    }
    assert_eq!(ask(&mounted, "/a/b/ui/").await.status(), StatusCode::OK);
}

/// Checks P11.
#[tokio::test]
async fn the_page_loads_without_a_key_and_shows_nothing_without_one() {
    let router = server(Options::new().auth(true)).await;
    for file in Files::iter() {
        assert_eq!(ask(&router, &format!("/ui/{file}")).await.status(), StatusCode::OK, "{file}");
    }
    assert_eq!(ask(&router, "/ui/").await.status(), StatusCode::OK);
    assert_eq!(ask(&router, "/v1/runs").await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&router, "/ui/none.js").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(ask(&router, "/ui/../Cargo.toml").await.status(), StatusCode::NOT_FOUND);
    let odd = ask(&router, "/ui/%ff").await;
    assert_eq!(odd.headers()["content-type"], "application/problem+json");
}

#[tokio::test]
async fn every_file_comes_with_a_policy_that_lets_nothing_in() {
    let router = server(Options::default()).await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "mine").unwrap();
    let from_disk = server(Options::new().web_dir(dir.path().to_owned())).await;
    let tag = ask(&router, "/ui/").await.headers()["etag"].to_str().unwrap().to_owned();
    let mut all = vec![ask(&from_disk, "/ui/").await, ask(&router, "/ui/").await];
    all.push(get_with(&router, "/ui/", &[(header::IF_NONE_MATCH, &tag)]).await);
    for file in Files::iter() {
        all.push(ask(&router, &format!("/ui/{file}")).await);
    }
    for response in all {
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        for needed in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for"]
        {
            assert!(policy.contains(needed), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert_ne!(
            response.headers().get("content-type").unwrap_or(&HeaderValue::from_static("")),
            "application/octet-stream"
        );
    }
}

#[tokio::test]
async fn the_page_has_no_script_within_and_asks_nobody_else() {
    for name in Files::iter() {
        let text = String::from_utf8(Files::get(&name).unwrap().data.into_owned()).unwrap();
        for foreign in ["http://", "https://", "//cdn"] {
            // The name of an XML namespace is not an address that is contacted.
            let plain = text.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
            let mut behind = plain.match_indices(foreign).map(|(at, _)| plain[at + foreign.len()..].chars().next());
            // The page looks for the start of an address in what a model wrote; only an address that goes on names a
            // host.
            let names_somebody = behind.any(|next| next.is_some_and(char::is_alphanumeric));
            assert!(!names_somebody, "{name} names {foreign}");
        }
        for code in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!text.contains(code), "{name} has {code}");
        }
        if name.ends_with(".html") {
            for inline in ["style=", "onclick=", "onload=", "javascript:", "<style"] {
                assert!(!text.contains(inline), "{name} has {inline}");
            }
            let scripts = text.matches("<script").count();
            assert_eq!(scripts, text.matches("<script type=\"module\" src=").count(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_browser_that_has_a_file_is_not_sent_it_again_and_one_that_can_unpack_is_sent_less() {
    let router = server(Options::default()).await;
    let plain = ask(&router, "/ui/").await;
    let tag = plain.headers()["etag"].to_str().unwrap().to_owned();
    let plain = body(plain).await;
    let again = get_with(&router, "/ui/", &[(header::IF_NONE_MATCH, &format!("W/\"other\", {tag}"))]).await;
    assert_eq!((again.status(), again.headers()["etag"].to_str().unwrap()), (StatusCode::NOT_MODIFIED, tag.as_str()));
    assert!(body(again).await.is_empty());
    let packed = get_with(&router, "/ui/app.js", &[(header::ACCEPT_ENCODING, "br, gzip")]).await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let mut unpacked = Vec::new();
    GzDecoder::new(&body(packed).await[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, body(ask(&router, "/ui/app.js").await).await);
    let refused = get_with(&router, "/ui/", &[(header::ACCEPT_ENCODING, "gzip;q=0")]).await;
    assert!(!refused.headers().contains_key("content-encoding"));
    assert_eq!(body(refused).await, plain);
}

#[tokio::test]
async fn from_a_folder_a_change_is_seen_at_once_and_nothing_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index.html");
    std::fs::write(&index, "one").unwrap();
    let router = server(Options::new().web_dir(dir.path().to_owned())).await;
    let first = ask(&router, "/ui/").await;
    assert_eq!(first.headers()["cache-control"], "no-store");
    assert_eq!(body(first).await, "one");
    std::fs::write(&index, "two").unwrap();
    assert_eq!(body(ask(&router, "/ui/").await).await, "two");
    assert_eq!(ask(&router, "/ui/app.js").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(ask(&router, "/ui/..%2Fsecret").await.status(), StatusCode::NOT_FOUND);
}

/// All modules that a module imports, directly or not.
fn made_of(module: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut open = vec![module.to_owned()];
    while let Some(module) = open.pop() {
        let text = text_of(&module);
        let folder = module.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        if !all.insert(module) {
            continue;
        }
        let statements = text.lines().filter(|line| line.contains(" from \"") || line.starts_with("import \""));
        let named = statements.filter_map(|line| line.rsplit('"').nth(1).filter(|name| name.starts_with('.')));
        open.extend(named.map(|name| match name.strip_prefix("../") {
            Some(above) => above.to_owned(),
            None => format!("{folder}{}", name.trim_start_matches("./")),
        }));
    }
    all
}

fn text_of(file: &str) -> String {
    text(file).unwrap_or_else(|| panic!("{file} is not there"))
}

#[test]
fn all_modules_of_a_view_are_asked_for_at_once() {
    let (frame, index) = (made_of("app.js"), String::from_utf8(PAGE["index.html"].plain.to_vec()).unwrap());
    let preloaded = index.lines().filter_map(|line| line.strip_prefix("<link rel=\"modulepreload\" href=\""));
    let preloaded: BTreeSet<String> = preloaded.map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
    let first: BTreeSet<String> = frame.union(&made_of("board/board.js")).cloned().collect();
    assert_eq!(preloaded, first.into_iter().filter(|module| module != "app.js").collect());
    for view in ["chat/chat.js", "board/runs.js", "run/run.js"] {
        let before = format!("<meta name=\"modules\" data-of=\"{view}\" content=\"");
        let listed = index.split_once(&before).unwrap_or_else(|| panic!("{view} is not listed")).1.split('"').next();
        let listed: BTreeSet<String> = listed.unwrap().split(' ').map(str::to_owned).collect();
        let wanted: BTreeSet<String> = made_of(view).difference(&frame).cloned().collect();
        assert_eq!(listed, wanted, "{view}");
        let asked = format!("dressed(\"{}\"", view.trim_end_matches(".js"));
        assert!(text_of("app.js").contains(&asked), "app.js asks for the modules of {view}");
    }
}

#[test]
fn the_first_view_is_small() {
    let modules = made_of("app.js").into_iter().chain(made_of("board/board.js"));
    let others = ["index.html", "style.css", "board/board.css", "icon.svg"].map(str::to_owned);
    let files: BTreeSet<String> = modules.chain(others).collect();
    let sent: usize = files.iter().map(|file| PAGE[file.as_str()].packed.len()).sum();
    assert!(sent < 50_000, "the first view is {sent} bytes of files, packed");
}
