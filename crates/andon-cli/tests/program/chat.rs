//! `andon chat`, over pipes.

use crate::child::Program;

#[test]
fn a_prompt_after_a_stop_in_mid_answer_works_at_once() {
    let mut program = Program::start(&["chat"]);
    program.wait_for("Ctrl-C stops it");
    program.wait_for("no key and no network");
    program.say("tell me a long story", "## 1. ");
    program.interrupt();
    program.wait_for("■ Stopped by ada, reason: requested (Ctrl-C)");
    program.say("roll 3 dice", "✓ Completed");
    let ended = program.end();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let story = ended.stdout.find("A long story by a practice model").unwrap();
    let receipt = ended.stdout.find("■ Stopped").unwrap();
    let knows = ended.stdout.find("I know that my last answer was stopped after").unwrap();
    let rolled = ended.stdout.find("→ dice {\"dice\":3}").unwrap();
    assert!(story < receipt && receipt < knows && knows < rolled, "{}", ended.stdout);
    assert!(ended.stdout.contains("> roll 3 dice"), "a prompt that nobody saw being typed is shown");
}

#[test]
fn commands_show_the_receipt_and_the_history_with_the_cut() {
    let mut program = Program::start(&["chat"]);
    program.say("tell me a long story", "## 1. ");
    program.interrupt();
    for command in ["/receipt", "/history", "/help", "/dance", "/quit"] {
        program.type_line(command);
    }
    program.wait_for_times("leaked  nothing", 2);
    let ended = program.end();
    assert_eq!(ended.code, Some(0));
    for told in ["billed:", "output at least", "■ cut here: requested", "count stubbornly", "There is no /dance"] {
        assert!(ended.stdout.contains(told), "{told} is not in\n{}", ended.stdout);
    }
}

#[test]
fn the_next_line_answers_a_question_which_is_repeated_if_the_line_is_not_an_answer() {
    let mut program = Program::start(&["chat", "--instant"]);
    program.say("write a note: buy milk", "May write_note run? [y/n]");
    program.type_line("perhaps");
    program.wait_for_times("May write_note run? [y/n]", 2);
    program.say("y", "kept as note 1: buy milk");
    program.type_line("write a note: buy eggs");
    program.wait_for_times("May write_note run? [y/n]", 3);
    program.say("n", "a person was asked and said no");
    assert_eq!(program.end().code, Some(0));
}

#[test]
fn after_a_stop_during_a_question_the_next_line_is_a_prompt() {
    let mut program = Program::start(&["chat", "--instant"]);
    program.say("write a note: buy milk", "May write_note run? [y/n]");
    program.interrupt();
    program.wait_for("while it waited for approval");
    program.say("hello", "✓ Completed");
    let ended = program.end();
    assert!(ended.stdout.contains("never started (the run was stopped first)"), "{}", ended.stdout);
}

#[test]
fn ctrl_c_at_an_empty_prompt_gives_a_hint_and_then_quits() {
    let mut program = Program::start(&["chat"]);
    program.wait_for("Ctrl-C stops it");
    program.interrupt();
    program.wait_for("Press Ctrl-C again");
    program.interrupt();
    let ended = program.end_without_closing();
    assert_eq!(ended.code, Some(0));
}
