//! Descriptions of services that many use, as data.

use super::description;

/// Every preset, by its name.
const ALL: [(&str, &str); 9] = [
    ("fal", include_str!("presets/fal.toml")),
    ("gemini_image", include_str!("presets/gemini_image.toml")),
    ("kling", include_str!("presets/kling.toml")),
    ("kling3", include_str!("presets/kling3.toml")),
    ("openai_video", include_str!("presets/openai_video.toml")),
    ("replicate", include_str!("presets/replicate.toml")),
    ("runway", include_str!("presets/runway.toml")),
    ("veo", include_str!("presets/veo.toml")),
    ("veo_vertex", include_str!("presets/veo_vertex.toml")),
];

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// What a preset says, as it is written.
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// An operator's words over those of the preset that they name, if any.
pub(super) fn complete(mut over: toml::Table) -> Result<toml::Table, String> {
    let mut whole = match over.remove("preset") {
        None => toml::Table::new(),
        Some(toml::Value::String(name)) => {
            let known: Vec<&str> = names().collect();
            let text = text(&name).ok_or_else(|| {
                format!("there is no preset `{name}`; there are {}", known.join(", "))
            })?;
            text.parse().map_err(|error| format!("the preset {name}: {error}"))?
        }
        Some(_) => return Err("preset: the name of one, please".to_owned()),
    };
    // Who names types names all of them: a preset's other ones may be another executor's.
    if over.contains_key("task_types") {
        whole.remove("task_types");
    }
    description::merge(&mut whole, over);
    Ok(whole)
}
