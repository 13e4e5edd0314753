//! Which modules the web page loads first, and which each of its views needs, read from the modules themselves.
//!
//! A browser finds an import only after it has loaded the module that has it, so a chain of imports takes one round trip per
//! link. `index.html` therefore names every module in advance. This file writes that list into it:
//!
//! - a `<link rel="modulepreload">` for each module that the page's script, or a module that `index.html` preloads itself,
//!   imports statically, directly or not;
//! - a `<meta name="modules" data-of="VIEW">` for each view that the page's script imports on demand, with the modules that
//!   the view needs besides. `app.js` preloads them when the view is opened.
//!
//! # Invariants
//!
//! 1. The lists only save time: without them the page loads the same modules, one after another.
//! 2. The lists name only files of the page.

use std::collections::BTreeSet;

/// `index.html` with the lists in its head. `read` gives the text of a file of the page.
pub(crate) fn with_preloads(index: &str, read: impl Fn(&str) -> Option<String>) -> String {
    let Some((head, rest)) = index.split_once("</head>") else { return index.to_owned() };
    let scripts: BTreeSet<String> = values(head, "<script type=\"module\" src=\"").map(str::to_owned).collect();
    let named: BTreeSet<String> = values(head, "<link rel=\"modulepreload\" href=\"").map(str::to_owned).collect();
    let first = with_imports(scripts.union(&named).cloned(), &read);
    let mut text = head.to_owned();
    for module in first.iter().filter(|module| !scripts.contains(*module) && !named.contains(*module)) {
        text.push_str(&format!("<link rel=\"modulepreload\" href=\"{module}\">\n"));
    }
    let frame = with_imports(scripts.iter().cloned(), &read);
    for view in scripts.iter().flat_map(|script| on_demand(script, &read)).filter(|view| !named.contains(view)) {
        let needed: Vec<String> = with_imports([view.clone()], &read).difference(&frame).cloned().collect();
        text.push_str(&format!("<meta name=\"modules\" data-of=\"{view}\" content=\"{}\">\n", needed.join(" ")));
    }
    format!("{text}</head>{rest}")
}

/// These modules and all that they import statically, directly or not.
fn with_imports(modules: impl IntoIterator<Item = String>, read: &impl Fn(&str) -> Option<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = modules.into_iter().collect();
    while let Some(module) = open.pop() {
        let Some(text) = read(&module).filter(|_| !found.contains(&module)) else { continue };
        open.extend(static_imports(&text).iter().filter_map(|name| beside(&module, name)));
        found.insert(module);
    }
    found
}

/// The modules that a module imports on demand.
fn on_demand(module: &str, read: &impl Fn(&str) -> Option<String>) -> BTreeSet<String> {
    let text = read(module).unwrap_or_default();
    let code = text.lines().filter(|line| !is_comment(line));
    code.flat_map(|line| values(line, "import(\"")).filter_map(|name| beside(module, name)).collect()
}

/// What the `import … from` and `export … from` statements of a module name.
fn static_imports(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        is_inside |= line.starts_with("import ") || line.starts_with("export {") || line.starts_with("export *");
        if is_inside {
            found.extend(values(line, " from \"").chain(values(line, "import \"")));
        }
        is_inside &= !line.contains(';');
    }
    found
}

fn is_comment(line: &str) -> bool {
    let bare = line.trim_start();
    bare.starts_with("//") || bare.starts_with("/*") || bare.starts_with('*')
}

/// The texts that follow `before`, each up to the next quote.
fn values<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split('"').next())
}

/// The file that a module means by `./name` or `../name`. `None` for any other name, and for one outside of the page.
fn beside(module: &str, name: &str) -> Option<String> {
    let mut folder: Vec<&str> = module.split('/').collect();
    folder.pop();
    if !name.starts_with("./") && !name.starts_with("../") {
        return None;
    }
    for step in name.split('/') {
        match step {
            "." => {}
            ".." => {
                folder.pop()?;
            }
            step => folder.push(step),
        }
    }
    Some(folder.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> Option<String> {
        let text = match file {
            "app.js" => {
                "import { a } from \"./a.js\";\nconst VIEWS = {\n  chat: () => import(\"./chat/chat.js\"),\n\
                 // import(\"./none.js\")\n  board: () => import(\"./board.js\"),\n};\n"
            }
            "a.js" => "import {\n  b,\n} from \"./b.js\";\nexport const from = \"./c.js\"; // from \"./d.js\"\n",
            "b.js" => "import \"./a.js\";\nimport { x } from \"elsewhere\";\nimport { y } from \"./missing.js\";\n",
            "board.js" => "export { z } from \"./z.js\";\nconst late = () => import(\"./late.js\");\n",
            "chat/chat.js" => {
                "import { a } from \"../a.js\";\nimport { own } from \"./own.js\";\nimport { up } from \"../../up.js\";\n"
            }
            "z.js" | "c.js" | "d.js" | "late.js" | "chat/own.js" | "up.js" => "",
            _ => return None,
        };
        Some(text.to_owned())
    }

    #[test]
    fn the_head_names_every_module_that_is_imported_statically_and_no_other() {
        let index = "<head>\n<link rel=\"modulepreload\" href=\"board.js\">\n<script type=\"module\" src=\"app.js\"></script>\n</head>\n<body>";
        let wanted = "<head>\n<link rel=\"modulepreload\" href=\"board.js\">\n<script type=\"module\" src=\"app.js\"></script>\n\
                      <link rel=\"modulepreload\" href=\"a.js\">\n<link rel=\"modulepreload\" href=\"b.js\">\n\
                      <link rel=\"modulepreload\" href=\"z.js\">\n\
                      <meta name=\"modules\" data-of=\"chat/chat.js\" content=\"chat/chat.js chat/own.js\">\n</head>\n<body>";
        assert_eq!(with_preloads(index, read), wanted);
    }

    #[test]
    fn a_page_without_a_head_or_a_script_stays_as_it_is() {
        for index in ["one", "<head></head>"] {
            assert_eq!(with_preloads(index, read), index);
        }
    }
}
