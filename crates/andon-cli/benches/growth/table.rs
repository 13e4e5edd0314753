//! A table of costs, as Markdown.

/// What something costs, depending on how much there is of it.
pub(crate) struct Table {
    /// What increases from row to row.
    pub(crate) of: &'static str,
    /// What is measured, with its unit.
    pub(crate) costs: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
}

/// An amount, and what each thing costs then.
pub(crate) struct Row {
    pub(crate) many: usize,
    pub(crate) costs: Vec<f64>,
}

impl Table {
    pub(crate) fn new(of: &'static str, costs: &'static [&'static str]) -> Self {
        Self { of, costs, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, many: usize, costs: Vec<f64>) {
        self.rows.push(Row { many, costs });
    }

    /// Prints it, with the ratio of the last row to the first.
    pub(crate) fn print(&self) {
        println!("| {} | {} |", self.of, self.costs.join(" | "));
        println!("|--:|{}", "--:|".repeat(self.costs.len()));
        for row in &self.rows {
            let costs: Vec<String> = row.costs.iter().map(|cost| shown(*cost)).collect();
            println!("| {} | {} |", grouped(row.many), costs.join(" | "));
        }
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.last()) else { return };
        let ratios = first.costs.iter().zip(&last.costs).map(|(first, last)| format!("**{:.2}×**", last / first));
        println!("| last ÷ first | {} |\n", ratios.collect::<Vec<_>>().join(" | "));
    }
}

/// A number with three significant digits.
fn shown(cost: f64) -> String {
    match cost {
        cost if cost >= 100.0 => format!("{cost:.0}"),
        cost if cost >= 10.0 => format!("{cost:.1}"),
        cost => format!("{cost:.2}"),
    }
}

/// A number with commas.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}
