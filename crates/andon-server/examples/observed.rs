//! Checks every query of the dashboard and of the alerts with a real Prometheus and a real server.
//!
//! The server makes runs of every kind: completed, failed, stopped in several phases, and one whose tool goes on. `cargo xtask
//! observe` runs this with a Prometheus: `ANDON_PROMETHEUS` is the folder of its programs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use andon_practice::Practice;
use andon_runtime::{Agent, FnTool, Runtime};
use andon_server::{Options, Server};
use andon_telemetry::Figures;
use andon_testkit::tools::{self, ToolLog};
use andon_testkit::{Act, ScriptedModel};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

type Failure = Box<dyn std::error::Error>;

/// Nothing takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(300);
/// The most times that each kind of run is made.
const ROUNDS: usize = 2_000;
/// Instead of Grafana's own interval: a busy machine does not scrape every second.
const RATE: &str = "1m";
/// How many ports are tried: another program may take one before Prometheus does.
const PORTS: usize = 5;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let programs = PathBuf::from(std::env::var("ANDON_PROMETHEUS").map_err(|_| "ANDON_PROMETHEUS names no folder")?);
    let ops = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops");
    check_files(&programs, &ops)?;
    let (url, _server) = serve().await?;
    let client = direct()?;
    let folder = tempfile::tempdir()?;
    let prometheus = Prometheus::start(&programs, &ops, folder.path(), &url).await?;
    let load = Load { client: client.clone(), url };
    load.leak().await?;
    timeout(PATIENCE, load.until(&prometheus)).await.map_err(|_| "Prometheus does not come to scrape")??;
    let queries = queries(&ops)?;
    let mut wrong = Vec::new();
    for (title, query) in &queries {
        wrong.extend(prometheus.ask(query).await?.map(|why| format!("{title}: {why}\n    {query}")));
    }
    timeout(PATIENCE, prometheus.until_firing("AndonLeakedWork")).await.map_err(|_| "the alert does not fire")??;
    if wrong.is_empty() {
        println!("{} queries answered, and the alert on leaked work fires", queries.len());
        return Ok(());
    }
    Err(wrong.join("\n").into())
}

/// A client that uses no proxy: everything is on this machine.
fn direct() -> reqwest::Result<Client> {
    Client::builder().no_proxy().build()
}

fn check_files(programs: &Path, ops: &Path) -> Result<(), Failure> {
    for (what, file) in [("rules", "alerts.yml"), ("config", "prometheus.yml")] {
        let mut promtool = Command::new(programs.join("promtool"));
        let checked = promtool.arg("check").arg(what).arg(ops.join("prometheus").join(file)).output()?;
        if !checked.status.success() {
            return Err(String::from_utf8_lossy(&checked.stderr).into_owned().into());
        }
    }
    Ok(())
}

/// A server with agents for every kind of run. It runs until the returned value is dropped.
async fn serve() -> Result<(String, impl Sized), Failure> {
    let figures = Figures::new();
    let runtime = Runtime::builder().observer(figures).build();
    let server = Server::new(&runtime, Options::default()).await?;
    let silent = vec![Act::text("Half"), Act::Silence];
    let fails = vec![Act::text("Half"), Act::Break];
    let asks = |tool| Act::call(0, "a", tool, "{}").into_iter().chain([Act::usage(9, 2), Act::tool_use()]).collect();
    let scripted = |acts: Vec<Act>| ScriptedModel::new(vec![acts; ROUNDS]);
    let log = ToolLog::new();
    let forever = Duration::from_secs(3600);
    let named = |name: &str| Agent::builder().name(name).runtime(&runtime);
    let (keep, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    let stuck = FnTool::blocking("stuck", "Does not end.", json!({"type": "object"}), move |_| {
        let _ = held.lock().recv();
        Ok("late".into())
    });
    for agent in [
        named("clerk").model(Practice::instant()).build()?,
        named("silent").model(scripted(silent)).build()?,
        named("broken").model(scripted(fails)).build()?,
        named("worker").model(scripted(asks("wait"))).tool(tools::cooperative("wait", forever, &log)).build()?,
        named("asker").model(scripted(asks("sign"))).tool(tools::quick("sign", &log).needs_approval()).build()?,
        named("stuck").model(scripted(asks("stuck"))).tool(stuck).build()?,
    ] {
        server.apps().put(agent, None);
    }
    let serving = server.serve(TcpListener::bind("127.0.0.1:0").await?)?;
    let url = format!("http://{}", serving.address());
    Ok((url, (serving, server, keep)))
}

/// A client that makes runs.
struct Load {
    client: Client,
    url: String,
}

impl Load {
    /// Starts a run and reads its feed; stops it when the feed contains these words, if any are given.
    async fn run(&self, app: &str, stop_at: Option<&str>) -> Result<(), Failure> {
        let start = self.client.post(format!("{}/v1/runs", self.url)).header("accept", "text/event-stream");
        let mut feed = start.json(&json!({"app": app, "input": "Go."})).send().await?.error_for_status()?;
        let run = feed.headers().get("andon-run-id").ok_or("the run has no id")?.to_str()?.to_owned();
        let (mut read, mut stop_at) = (String::new(), stop_at);
        while let Some(piece) = feed.chunk().await? {
            read += &String::from_utf8_lossy(&piece);
            if stop_at.take_if(|words| read.contains(*words)).is_some() {
                let cancel = self.client.post(format!("{}/v1/runs/{run}/cancel", self.url));
                cancel.json(&json!({"force": "now"})).send().await?.error_for_status()?;
            }
        }
        Ok(())
    }

    async fn leak(&self) -> Result<(), Failure> {
        // A stop right after the record may come before the tool's thread has begun. Then nothing leaks, and it is tried again.
        self.run("stuck", Some("\"tool_started\"")).await?;
        for _ in 0..20 {
            if self.figure("andon_leaked_work").await? > 0.0 {
                return Ok(());
            }
            self.run("stuck", Some("\"tool_started\"")).await?;
        }
        Err("no tool was leaked".into())
    }

    async fn figure(&self, name: &str) -> Result<f64, Failure> {
        let text = self.client.get(format!("{}/metrics", self.url)).send().await?.text().await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        Ok(value.ok_or_else(|| format!("there is no {name}"))?)
    }

    async fn round(&self) -> Result<(), Failure> {
        self.run("clerk", None).await?;
        self.run("broken", None).await?;
        self.run("silent", Some("Half")).await?;
        self.run("worker", Some("\"tool_started\"")).await?;
        self.run("asker", Some("\"approval_requested\"")).await?;
        self.client.get(format!("{}/v1/runs/unknown", self.url)).send().await?;
        Ok(())
    }

    /// Makes runs until Prometheus has scraped often enough to compute rates.
    async fn until(&self, prometheus: &Prometheus) -> Result<(), Failure> {
        let enough = format!("min(count_over_time(andon_run_seconds_count[{RATE}])) >= 4");
        while prometheus.ask(&enough).await?.is_some() {
            self.round().await?;
            sleep(Duration::from_millis(200)).await;
        }
        self.round().await
    }
}

/// A Prometheus that scrapes the server every second, until it is dropped.
struct Prometheus {
    process: Child,
    url: String,
    client: Client,
}

impl Prometheus {
    async fn start(programs: &Path, ops: &Path, folder: &Path, server: &str) -> Result<Self, Failure> {
        let target = server.trim_start_matches("http://");
        let config = std::fs::read_to_string(ops.join("prometheus/prometheus.yml"))?;
        let config = config.replace("127.0.0.1:8000", target).replace("15s", "1s");
        std::fs::write(folder.join("prometheus.yml"), config)?;
        std::fs::copy(ops.join("prometheus/alerts.yml"), folder.join("alerts.yml"))?;
        for _ in 0..PORTS {
            if let Some(prometheus) = Self::begin(programs, folder).await? {
                return Ok(prometheus);
            }
        }
        Err("Prometheus does not begin".into())
    }

    /// Starts it on a free port, and waits until it is ready; `None` if it exited instead.
    async fn begin(programs: &Path, folder: &Path) -> Result<Option<Self>, Failure> {
        let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let mut command = Command::new(programs.join("prometheus"));
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address={address}")).arg("--log.level=error");
        let process = command.stdin(Stdio::null()).spawn()?;
        let mut prometheus = Self { process, url: format!("http://{address}"), client: direct()? };
        let ready = format!("{}/-/ready", prometheus.url);
        let until = Instant::now() + PATIENCE;
        while !prometheus.client.get(&ready).send().await.is_ok_and(|answer| answer.status().is_success()) {
            if prometheus.process.try_wait()?.is_some() {
                return Ok(None);
            }
            if Instant::now() > until {
                return Err("Prometheus is never ready".into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(Some(prometheus))
    }

    /// Asks a query; returns what is wrong with the answer, if anything.
    async fn ask(&self, query: &str) -> Result<Option<String>, Failure> {
        let asked = self.client.post(format!("{}/api/v1/query", self.url));
        let body =
            format!("query={}", percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC));
        let asked = asked.header("content-type", "application/x-www-form-urlencoded").body(body);
        let answer: Value = asked.send().await?.json().await?;
        if answer.pointer("/status") != Some(&json!("success")) {
            return Ok(Some(format!("refused: {}", answer.pointer("/error").unwrap_or(&Value::Null))));
        }
        let found = answer.pointer("/data/result").and_then(Value::as_array).map_or(0, Vec::len);
        Ok((found == 0).then(|| "nothing was found".to_owned()))
    }

    async fn until_firing(&self, alert: &str) -> Result<(), Failure> {
        loop {
            let answer: Value = self.client.get(format!("{}/api/v1/alerts", self.url)).send().await?.json().await?;
            let alerts = answer.pointer("/data/alerts").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_it = |one: &Value| {
                one.pointer("/labels/alertname") == Some(&json!(alert))
                    && one.pointer("/state") == Some(&json!("firing"))
            };
            if alerts.iter().any(is_it) {
                return Ok(());
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The queries of the dashboard and the left sides of the alerts, each with its title.
fn queries(ops: &Path) -> Result<Vec<(String, String)>, Failure> {
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(ops.join("grafana/andon.json"))?)?;
    let panels = dashboard.pointer("/panels").and_then(Value::as_array).ok_or("the dashboard has no panels")?;
    let mut queries = Vec::new();
    for panel in panels {
        let title = panel.pointer("/title").and_then(Value::as_str).unwrap_or_default();
        for target in panel.pointer("/targets").and_then(Value::as_array).into_iter().flatten() {
            let query = target.pointer("/expr").and_then(Value::as_str).ok_or("a target has no query")?;
            queries.push((title.to_owned(), query.replace("$__rate_interval", RATE)));
        }
    }
    let alerts = std::fs::read_to_string(ops.join("prometheus/alerts.yml"))?;
    for line in alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: ")) {
        // The metric must exist even while nothing is wrong.
        let compared = line.rsplit_once(" > ").map_or(line, |(compared, _)| compared);
        queries.push(("alert".to_owned(), compared.to_owned()));
    }
    if queries.len() < 20 { Err("there are few queries".into()) } else { Ok(queries) }
}
