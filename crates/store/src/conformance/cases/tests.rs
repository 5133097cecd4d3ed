//! The list against the files of the cases.

macro_rules! listed {
    ($($topic:ident { $($case:ident)* })*) => {
        [$((
            stringify!($topic),
            vec![$(stringify!($case)),*],
            include_str!(concat!("../", stringify!($topic), ".rs")),
        )),*]
    };
}

#[test]
fn no_case_is_forgotten() {
    for (topic, cases, source) in for_each_conformance_case!(listed) {
        let written: Vec<&str> = source
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next())
            .collect();
        assert_eq!(cases, written, "the cases of {topic} in the order of their file");
    }
}
