//! A long story, which leaves time to find the cord.

/// The least number of words: more than a minute at human pace.
const WORDS: usize = 2200;

const CHAPTERS: [&str; 6] =
    ["The early shift", "A loose bolt", "The cord", "What the journal said", "The late shift", "The receipt"];

const PEOPLE: [&str; 8] = ["Ada", "Kenji", "Maria", "Ola", "Noor", "Tomás", "Wen", "Ines"];
const PLACES: [&str; 8] = [
    "the paint shop",
    "the press hall",
    "station nine",
    "the loading bay",
    "the canteen",
    "the night office",
    "the far end of the line",
    "the yard",
];
const THINGS: [&str; 8] =
    ["a hinge", "a wheel", "a door", "a gearbox", "a half-painted roof", "a lamp", "a seat", "a bundle of wires"];

/// Sentences; `{a}` and `{b}` are people, `{p}` is a place, `{t}` a thing.
const SENTENCES: [&str; 36] = [
    "{a} walked slowly through {p} and listened, because a line that runs well has a sound of its own.",
    "Somewhere behind {p} a bell rang twice and then thought better of it.",
    "“It is only {t},” said {b}, “and nobody will look there.”",
    "“I am looking there now,” said {a}.",
    "The clock above {p} had been five minutes fast since the spring, and everybody had learned to subtract.",
    "{b} held {t} against the light and turned it once, as one turns a coin that one does not trust.",
    "Nothing was wrong with it, and that was what worried {a}.",
    "In {p} the air smelt of warm oil, coffee and rain.",
    "They had agreed long ago that whoever sees something pulls the cord, and that no one asks whether it was worth it.",
    "{a} remembered the first time, when the whole hall had gone quiet and forty heads had turned.",
    "“You will get used to it,” {b} had said then, and had been wrong.",
    "The line moved on by one place, and {t} moved with it.",
    "From {p} one could see the lamps over every station, green after green, like a street at night.",
    "One of them was not green.",
    "{b} wrote the time into the journal, then the place, then, after a while, the reason.",
    "It is a strange comfort to read what happened in the order in which it happened.",
    "{a} counted the screws in the tray and came to eleven, and counted them again and came to eleven again.",
    "Twelve had gone in.",
    "“Then one of them is inside,” said {b}, and for a moment nobody in {p} said anything.",
    "There are mistakes that one can carry a little further, and there are those that only grow.",
    "The new one from {p} had a hand on the cord already, and looked round to see whether that was allowed.",
    "It was allowed.",
    "Everything stopped, and nothing fell.",
    "{t} hung where it was, half-way between two stations, with every bolt that it had so far.",
    "That was the art of it: to stop is easy, to stop with nothing half-made is a craft.",
    "{a} read the tag aloud, with the number, the hour and the name, so that {b} could hear whether it was right.",
    "“Who pulled it?” asked somebody from {p}.",
    "“It says so on the receipt,” said {b}, “and it says why, and it says how long we stood.”",
    "They had stood for less than a minute.",
    "Later, in {p}, they laughed about it, though not very loudly.",
    "{b} put {t} on the table between the cups, and they all looked at it as if it might explain itself.",
    "“If we had let it run,” said {a}, “it would be on a ship by now.”",
    "Outside, a lorry backed into the yard with great patience.",
    "The evening shift came in by twos and threes, shook off the rain, and read the board before they read anything else.",
    "On the board stood one line more than in the morning, and under it, in a smaller hand, the word for thank you.",
    "Then the lamp over {p} went green, and the line went on from exactly where it was.",
];

/// Tells a long story.
pub(super) fn tell(chance: &mut fastrand::Rng) -> String {
    let mut text = String::from(
        "# The cord\n\nA long story by a practice model. Stop it wherever you like: that is what it is for.\n",
    );
    let mut words = 0;
    let mut chapter = 0;
    while words < WORDS {
        let title = CHAPTERS.get(chapter % CHAPTERS.len()).copied().unwrap_or_default();
        chapter += 1;
        text.push_str(&format!("\n## {chapter}. {title}\n"));
        // No sentence comes twice in a chapter.
        let mut sentences = SENTENCES;
        chance.shuffle(&mut sentences);
        for paragraph in sentences.chunks(5).take(6) {
            let told: Vec<String> = paragraph.iter().map(|sentence| fill(sentence, chance)).collect();
            let told = told.join(" ");
            words += told.split_whitespace().count();
            text.push_str(&format!("\n{told}\n"));
        }
    }
    text.push_str("\nAnd there the practice model's story ends, because somebody has to stop it.");
    text
}

fn fill(sentence: &str, chance: &mut fastrand::Rng) -> String {
    let mut people = PEOPLE;
    chance.shuffle(&mut people);
    let [a, b, ..] = people;
    let mut one_of = |choices: &[&'static str]| chance.choice(choices).copied().unwrap_or_default();
    let filled =
        sentence.replace("{a}", a).replace("{b}", b).replace("{p}", one_of(&PLACES)).replace("{t}", one_of(&THINGS));
    let mut letters = filled.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
