//! Leftovers of a worker in the system's temporary folder.

use std::sync::mpsc::channel;

use super::*;

#[test]
fn only_the_folder_of_a_killed_worker_is_swept() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let folders = || -> Vec<String> {
        let entries = std::fs::read_dir(lab.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("runwright-worker-"))
            .collect()
    };
    let (tell, said) = channel();
    let place = ["--server", &serving.url];
    let start = |name| Worker::start(&lab, &place, name, "echo 1", &tell);
    let first = start("w1");
    wait(|| folders().len() == 1);
    let of_first = folders().remove(0);
    first.kill();
    assert_eq!(folders(), [of_first.as_str()]);

    let second = start("w2");
    wait(|| folders().iter().any(|name| *name != of_first));
    let of_second = folders();
    assert_eq!(of_second.len(), 1, "{of_second:?}");
    let third = start("w3");
    wait(|| folders().len() == 2);
    assert!(folders().contains(&of_second[0]));
    third.stop();
    wait(|| folders() == of_second);

    // In use all the while.
    let id = run(&lab, &serving, "one");
    until(&said, "delivered");
    shown(&lab, &serving, &id, 0);
    second.stop();
    assert_eq!(folders(), [""; 0]);
    serving.stop();
}
