//! Outside generators: tables of any name, variables, and what is wrong with them.

use super::*;

const KLING: &str = "[executors.kling]\npreset = 'kling'\naccess_key = 'canary-a'\n";

#[test]
fn executors_come_from_the_file_and_the_environment() {
    let loaded = given()
        .file(&format!("{KLING}[executors.kling.limits]\nslots_max = 5"))
        .secret_file("ROUNDSMAN_EXECUTORS_KLING_SECRET_KEY_FILE", "canary-s\n")
        .env("ROUNDSMAN_EXECUTORS_NANO_PRESET", "gemini_image")
        .env("ROUNDSMAN_EXECUTORS_NANO_API_KEY", "canary-g")
        .env("ROUNDSMAN_EXECUTORS_NANO_BASE_URL", "https://proxy.example/gemini")
        .load()
        .unwrap();
    let options: Vec<_> = loaded.config.executors.options().collect();
    assert_eq!(options.len(), 2);
    assert_eq!((options[0].name.as_str(), options[1].name.as_str()), ("kling", "nano"));
    assert_eq!(options[0].description["limits"]["slots_max"].as_integer(), Some(5));
    assert_eq!(options[1].description["preset"].as_str(), Some("gemini_image"));
    assert_eq!(format!("{:?}", options[0].secrets), r#"{"access_key", "secret_key"}"#);
    let shown = loaded.settings.to_toml();
    assert!(shown.contains("[executors.kling]") && shown.contains("slots_max = 5"), "{shown}");
    assert!(shown.contains("secret_key = \"<set>\""), "{shown}");
    let json = loaded.settings.to_json();
    assert_eq!(json["executors"]["nano"]["api_key"], "<set>");
    assert!(!format!("{shown}{json}{loaded:?}").contains("canary"));
}

#[test]
fn what_is_wrong_with_an_executor_is_said_at_start() {
    let case = |text: &str| given().file(text).problem();
    assert_eq!(case(KLING), "executors.kling (file roundsman.toml:1): secret_key is missing");
    assert!(case("[executors]\nkling = 'x'").contains("expected a table; write [executors.kling]"));
    assert!(case("[executors.own]\npreset = 'sora'").contains("there is no preset `sora`"));
    assert!(
        case("[executors.g]\npreset = 'gemini_image'\napi_key = ['canary']")
            .contains("text in quotes")
    );
    let typo = case("[executors.g]\npreset = 'gemini_image'\napi_kye = 'canary'\napi_key = 'k'");
    assert!(typo.contains("unknown field `api_kye`") && !typo.contains("canary"), "{typo}");
    let twice = "[executors.a]\npreset = 'fal'\napi_key = 'k'\n[executors.b]\npreset = 'fal'\napi_key = 'k'";
    assert!(case(twice).contains("executors.a takes tasks of type fal too"));
    // A migration needs no keys.
    given().file(KLING).purpose(Purpose::Maintenance).load().unwrap();
}

#[test]
fn variables_that_say_nothing_are_errors() {
    for name in ["ROUNDSMAN_EXECUTORS_KLING_COLOUR", "ROUNDSMAN_EXECUTORS_API_KEY"] {
        let problem = given().env(name, "x").problem();
        assert!(problem.contains("no such setting"), "{problem}");
    }
    let twice = given()
        .file("[executors.g]\npreset = 'gemini_image'")
        .env("ROUNDSMAN_EXECUTORS_G_API_KEY", "canary")
        .secret_file("ROUNDSMAN_EXECUTORS_G_API_KEY_FILE", "canary")
        .problem();
    assert!(twice.contains("remove one of them") && !twice.contains("canary"), "{twice}");
    let vertex = given()
        .env("ROUNDSMAN_EXECUTORS_V_PRESET", "veo_vertex")
        .env("ROUNDSMAN_EXECUTORS_V_SETTINGS_PROJECT", "p")
        .env("ROUNDSMAN_EXECUTORS_V_SERVICE_ACCOUNT", "{}")
        .problem();
    assert!(vertex.contains("service_account: the JSON file of a key"), "{vertex}");
}
