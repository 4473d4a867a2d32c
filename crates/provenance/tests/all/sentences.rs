//! Sentences that say the same, that contradict each other, and that are about the same and say
//! something else; and long answers with sentences that contradict one of their own. The rules of
//! comparing were made with these at hand, but for [`HELD_OUT`].

/// Pairs of sentences.
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) paraphrases: &'static [(&'static str, &'static str)],
    pub(crate) contradictions: &'static [(&'static str, &'static str)],
    pub(crate) different: &'static [(&'static str, &'static str)],
}

pub(crate) const SETS: [Set; 2] = [
    Set {
        name: "first",
        paraphrases: &PARAPHRASES,
        contradictions: &CONTRADICTIONS,
        different: &DIFFERENT,
    },
    Set {
        name: "second",
        paraphrases: &MORE_PARAPHRASES,
        contradictions: &MORE_CONTRADICTIONS,
        different: &MORE_DIFFERENT,
    },
];

const PARAPHRASES: [(&str, &str); 12] = [
    (
        "The server restarts automatically after a crash.",
        "After a crash, the server restarts on its own.",
    ),
    (
        "You can cancel the order at any time.",
        "The order can be cancelled by you at any moment.",
    ),
    (
        "The report was written by the finance team.",
        "The finance team wrote the report.",
    ),
    (
        "We moved the database to a new machine.",
        "The database was moved to a new host by us.",
    ),
    (
        "The tests cover the whole parser.",
        "The whole parser is covered by tests.",
    ),
    (
        "Our office is close to the station.",
        "Our office is located near the station.",
    ),
    (
        "The function returns an empty list if nothing is found.",
        "If nothing is found, an empty list is returned by the function.",
    ),
    (
        "Please send us the signed contract by Friday.",
        "Please return the signed contract to us by Friday.",
    ),
    (
        "The dog was sleeping under the table.",
        "Under the table, the dog was asleep.",
    ),
    (
        "She has been a doctor for ten years.",
        "She has worked as a doctor for 10 years.",
    ),
    (
        "The meeting was postponed because of the storm.",
        "Because of the storm, the meeting was put off.",
    ),
    (
        "The new version uses a lot more memory.",
        "Memory use is a lot higher in the new version.",
    ),
];

const CONTRADICTIONS: [(&str, &str); 12] = [
    (
        "The server restarts automatically after a crash.",
        "The server does not restart automatically after a crash.",
    ),
    (
        "The migration finished in 12 minutes.",
        "The migration finished in 21 minutes.",
    ),
    (
        "All tests passed on the main branch.",
        "All tests failed on the main branch.",
    ),
    (
        "The cache is enabled by default.",
        "The cache is disabled by default.",
    ),
    (
        "Access is granted to every member.",
        "Access is denied to every member.",
    ),
    (
        "The importer calls the validator.",
        "The validator calls the importer.",
    ),
    (
        "Memory use went up after the change.",
        "Memory use went down after the change.",
    ),
    (
        "The patch was reviewed by Anna.",
        "The patch was reviewed by Boris.",
    ),
    (
        "Logs are kept for thirty days.",
        "Logs are kept for ninety days.",
    ),
    ("The file must be encrypted.", "The file may be encrypted."),
    (
        "The invoice was paid before the deadline.",
        "The invoice was paid after the deadline.",
    ),
    (
        "Nobody was hurt in the accident.",
        "Somebody was hurt in the accident.",
    ),
];

const DIFFERENT: [(&str, &str); 6] = [
    (
        "The server restarts automatically after a crash.",
        "The server writes its log to a file of its own.",
    ),
    (
        "You can cancel the order at any time.",
        "You can pay the order by card or by invoice.",
    ),
    (
        "We moved the database to a new machine.",
        "We make a copy of the database every night.",
    ),
    (
        "The tests cover the whole parser.",
        "The tests take two minutes on a laptop.",
    ),
    (
        "Our office is close to the station.",
        "Our office has a kitchen and a roof garden.",
    ),
    (
        "The new version uses a lot more memory.",
        "The new version has a dark theme.",
    ),
];

const MORE_PARAPHRASES: [(&str, &str); 12] = [
    (
        "The bridge was closed for repairs.",
        "The bridge was shut for repairs.",
    ),
    (
        "It is raining heavily in the mountains.",
        "Heavy rain is falling in the mountains.",
    ),
    (
        "He gave the keys to his neighbour.",
        "His neighbour was given the keys by him.",
    ),
    (
        "The library opens at nine in the morning.",
        "In the morning the library opens at nine.",
    ),
    (
        "Users must confirm their address before they can log in.",
        "Before they can log in, users must confirm their address.",
    ),
    (
        "The script deletes temporary files when it ends.",
        "When it ends, the script removes temporary files.",
    ),
    (
        "The train arrived late because of snow.",
        "Because of snow the train was late.",
    ),
    (
        "A backup is made every night.",
        "Every night a backup is created.",
    ),
    (
        "The engineer found the cause of the fault quickly.",
        "The engineer quickly found what caused the fault.",
    ),
    (
        "The garden is watered in the evening.",
        "In the evening the garden gets watered.",
    ),
    (
        "Children under six travel for free.",
        "Travel is free for children under six.",
    ),
    (
        "The committee accepted the proposal.",
        "The proposal was accepted by the committee.",
    ),
];

const MORE_CONTRADICTIONS: [(&str, &str); 6] = [
    (
        "The bridge was closed for repairs.",
        "The bridge was never closed for repairs.",
    ),
    (
        "The library opens at nine in the morning.",
        "The library opens at ten in the morning.",
    ),
    (
        "The parser depends on the lexer.",
        "The lexer depends on the parser.",
    ),
    (
        "The proposal was accepted by the committee.",
        "The proposal was rejected by the committee.",
    ),
    (
        "Prices rose during the summer.",
        "Prices fell during the summer.",
    ),
    (
        "All of the samples were contaminated.",
        "Some of the samples were contaminated.",
    ),
];

const MORE_DIFFERENT: [(&str, &str); 6] = [
    (
        "The bridge was closed for repairs.",
        "The bridge was built by the railway company.",
    ),
    (
        "He gave the keys to his neighbour.",
        "His neighbour keeps bees behind the house.",
    ),
    (
        "The library opens at nine in the morning.",
        "The library lends games and films as well.",
    ),
    (
        "The train arrived late because of snow.",
        "The train has a dining car and sleeping cars.",
    ),
    (
        "A backup is made every night.",
        "A backup can be restored with one command.",
    ),
    (
        "The garden is watered in the evening.",
        "The garden was planted by the school.",
    ),
];

/// An answer of several sentences, and what contradicts one of them, by its place.
pub(crate) struct Answer {
    pub(crate) sentences: &'static [&'static str],
    pub(crate) contradicted: &'static [(usize, &'static str)],
}

/// By a word or two put in, another preposition, changed roles, or in few words.
pub(crate) const ANSWER: Answer = Answer {
    sentences: &[
        "The collector polls the sensors every minute.",
        "Nurses hand their notes to the archive.",
        "Reports are drawn up for the board.",
        "The index is rebuilt at the end.",
        "Guests may book a room through the portal.",
        "The tank is refilled at noon.",
        "Reminders are mailed to the tenants in spring.",
        "The interval doubles with every attempt.",
        "Parcels travel from the depot to the harbour.",
        "It assigns each ticket to a free agent.",
    ],
    contradicted: &[
        (0, "The collector polls the sensors every other minute."),
        (0, "The collector polls the broken sensors every minute."),
        (0, "The collector ignores the sensors every minute."),
        (1, "The archive hands its notes to nurses."),
        (1, "Nurses hand their notes to the archive without effect."),
        (1, "Nurses withhold their notes from the archive."),
        (2, "Reports are drawn up by the board."),
        (2, "Reports are hidden from the board."),
        (3, "The index is rebuilt after the end."),
        (3, "The old index is rebuilt at the end."),
        (3, "The index is supposedly rebuilt at the end."),
        (
            4,
            "Guests may book a room through the portal, but that is untrue.",
        ),
        (4, "Guests may allegedly book a room through the portal."),
        (
            4,
            "Guests may book another guest's room through the portal.",
        ),
        (5, "It is a myth that the tank is refilled at noon."),
        (5, "The tank fails to be refilled at noon."),
        (5, "The tank is occasionally refilled at noon."),
        (5, "The tank was refilled at noon."),
        (5, "The tank is refilled at noon?"),
        (6, "Reminders are mailed by the tenants in spring."),
        (6, "Reminders are mailed to the wrong tenants in spring."),
        (6, "Reminders are seldom mailed to the tenants in spring."),
        (7, "The interval is constant across attempts."),
        (7, "The interval doubles with every second attempt."),
        (8, "Parcels travel from the harbour to the depot."),
        (8, "Parcels partly travel from the depot to the harbour."),
        (9, "It assigns all tickets to a free agent."),
        (9, "It assigns each ticket to a free agent, or so they say."),
    ],
};

/// Contradictions for which no rule was made or changed.
pub(crate) const HELD_OUT: Answer = Answer {
    sentences: &[
        "The ferry leaves the island at dawn.",
        "Teachers lend their books to the pupils.",
        "The valve closes when the pressure drops.",
        "Invoices are printed for the customer.",
        "The museum lets visitors in through the garden.",
        "A technician inspects the lift once a month.",
    ],
    contradicted: &[
        (0, "The ferry reaches the island at dawn."),
        (0, "The last ferry leaves the island at dawn."),
        (0, "The ferry would leave the island at dawn, had it fuel."),
        (1, "Pupils lend their books to the teachers."),
        (1, "The pupils' books are lent to their teachers."),
        (1, "Teachers lend none of their books to the pupils."),
        (2, "The valve closes until the pressure drops."),
        (2, "The pressure drops when the valve closes."),
        (2, "The valve sticks when the pressure drops."),
        (3, "Invoices are printed by the customer."),
        (3, "Invoices are printed at the customer's expense."),
        (4, "The museum lets visitors out through the garden."),
        (4, "Visitors let the museum in through the garden."),
        (5, "A technician ought to inspect the lift once a month."),
        (
            5,
            "A technician inspects a picture of the lift once a month.",
        ),
        (
            5,
            "The lift is inspected once a month by nobody in particular.",
        ),
    ],
};
