//! `andon usage`.

use andon_models::meter::{Accuracy, Quality};
use andon_runtime::CALIBRATION;
use serde_json::Value;

use super::{nothing_recorded, where_it_is, write};
use crate::args::UsageArgs;
use crate::client::Target;
use crate::print::{Cell, Style, Table, columns, write_line};

/// Shows how accurate the estimates have been.
pub(crate) async fn usage(args: &UsageArgs) -> anyhow::Result<()> {
    let db = Target::named(&args.target)?;
    let kept: Vec<Value> = match &db {
        Target::Server(client) => client.usage().await?.into_iter().map(|(_, accuracy)| accuracy).collect(),
        Target::Database(db) => match db.journal_to_read().await? {
            Some(journal) => {
                let kept = journal.shelf().kept(CALIBRATION).await?;
                kept.into_iter().filter_map(|(_, mut page)| Some(page.get_mut("standing")?.take())).collect()
            }
            None => Vec::new(),
        },
    };
    let models = about(kept, args.model.as_deref().unwrap_or_default());
    if args.json {
        for model in &models {
            write_line(&serde_json::to_string(model)?)?;
        }
    } else if models.is_empty() {
        write(&format!("{}\n", empty(args, &db)))?;
    } else {
        write(&table(&models))?;
        if models.iter().any(|model| model.hides_reasoning) {
            write(
                "\nA model that hides its reasoning gets no estimate for a cut answer: its receipt has bounds instead.\n",
            )?;
        }
    }
    Ok(())
}

/// How good the estimates for each matching model were. What another version wrote is left out, and learned again.
fn about(kept: Vec<Value>, word: &str) -> Vec<Accuracy> {
    let models = kept.into_iter().filter_map(|kept| serde_json::from_value(kept).ok());
    models.filter(|model: &Accuracy| model.model.contains(word)).collect()
}

fn empty(args: &UsageArgs, db: &Target) -> String {
    match &args.model {
        Some(word) => format!("Nothing is known about a model whose name contains `{word}`."),
        None if db.is_kept() => format!(
            "No call of a real model has finished yet {}. Estimates for cut calls are learned from finished ones.",
            where_it_is(db)
        ),
        None => nothing_recorded(db),
    }
}

fn table(models: &[Accuracy]) -> String {
    let mut table = Table::new(&["MODEL", "CALLS", "OUTPUT ERROR", "INPUT ERROR", "FIRST INPUT", "BIAS", "IN BOUNDS"]);
    for model in models {
        let error = |quality: &Option<Quality>| match quality {
            Some(quality) => format!("{} (p90 {})", percent(quality.median), percent(quality.p90)),
            None => "-".to_owned(),
        };
        let of_output = |part: fn(&Quality) -> f64| model.output.as_ref().map_or("-".to_owned(), |q| percent(part(q)));
        table.row(vec![
            Cell::styled(model.model.clone(), Style::BOLD),
            model.calls.to_string().into(),
            if model.hides_reasoning { "only bounds".into() } else { error(&model.output).into() },
            error(&model.input).into(),
            error(&model.first_input).into(),
            of_output(|quality| quality.bias).into(),
            of_output(|quality| quality.coverage).into(),
        ]);
    }
    table.fit(columns())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
