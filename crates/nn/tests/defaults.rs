//! Defaults are PyTorch's: those of optimizers, layers and schedules, against what `scripts/torch_defaults.py` wrote.
//! `python/tests/test_mirror.py` compares Python's with the same file, so that the two languages cannot part.

use cpu as _;
use serde_json::{Map, Value as Json, json};
use talweg_nn::layers::rows;
use talweg_nn::optim::{Hyperparameter, LbfgsOptions, ROWS, Settings, Value};
use talweg_nn::schedule;
use talweg_nn::{
    AvgPoolOptions, BatchNorm, GroupNorm, LayerNorm, MaxPoolOptions, RecurrentOptions, RmsNorm, TransformerOptions,
};

/// PyTorch has no such optimizer.
const OWN: &[&str] = &["Lion", "GCN", "GAT"];

fn stored() -> Map<String, Json> {
    serde_json::from_str(include_str!("../../../python/tests/torch_defaults.json")).unwrap()
}
/// PyTorch's name, which differs by the case of letters only.
fn find<'a>(all: &'a Map<String, Json>, name: &str) -> Option<&'a Json> {
    all.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
}
fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(b) => Value::Bool(*b),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(all) => Value::Tuple(all.iter().map(value).collect()),
        n => Value::Float(n.as_f64().unwrap()),
    }
}
fn assert_settings(name: &str, theirs: &Json, settings: Vec<Hyperparameter>) {
    for s in settings {
        let given = theirs.get(s.name).unwrap_or_else(|| panic!("{name}: PyTorch has no {}", s.name));
        assert_eq!(s.default, value(given), "{name}.{}", s.name);
        assert!(!s.doc.trim().is_empty(), "{name}.{} has no documentation", s.name);
    }
}

#[test]
fn optimizers_have_pytorchs() {
    let all = stored();
    for row in ROWS.iter().filter(|r| !OWN.contains(&r.name)) {
        let theirs = find(&all, &format!("optim.{}", row.name)).unwrap_or_else(|| panic!("no {}", row.name));
        assert_settings(row.name, theirs, (row.settings)());
        assert!(!row.doc.trim().is_empty());
    }
    // PyTorch names the search instead of switching it on.
    let settings = LbfgsOptions::settings().into_iter().filter(|s| s.name != "strong_wolfe").collect();
    assert_settings("LBFGS", find(&all, "optim.LBFGS").unwrap(), settings);
    assert!(!LbfgsOptions::default().strong_wolfe);
}

#[test]
fn settings_are_given_by_name_and_checked() {
    let row = ROWS.iter().find(|r| r.name == "Sgd").unwrap();
    let given = |name: &str, value: Value| (row.make)(&[(name.to_string(), value)]);
    assert_eq!(given("lr", Value::Float(0.5)).unwrap().lr(), 0.5);
    let e = given("speed", Value::Float(1.0)).err().unwrap().message;
    assert!(e.contains(r#"no setting "speed", only ["lr", "momentum""#), "{e}");
    let e = given("nesterov", Value::Float(1.0)).err().unwrap().message;
    assert!(e.contains("nesterov: expected bool, not Float(1.0)"), "{e}");
}

#[test]
fn layers_have_pytorchs() {
    let all = stored();
    for row in rows::ROWS.iter().filter(|r| !OWN.contains(&r.name)) {
        // PyTorch's recurrent layers take their settings as keywords of one base.
        let name = if ["RNN", "LSTM", "GRU"].contains(&row.name) { "RNNBase" } else { row.name };
        let theirs = find(&all, &format!("nn.{name}"));
        let settings = (row.settings)();
        assert!(settings.is_empty() || theirs.is_some(), "no {name}");
        assert_settings(row.name, theirs.unwrap_or(&Json::Null), settings);
    }
}

/// What constructors make is what rows say.
#[test]
fn constructors_have_those_of_their_rows() {
    let default = |layer: &str, name: &str| {
        let row = rows::ROWS.iter().find(|r| r.name == layer).unwrap();
        (row.settings)().into_iter().find(|s| s.name == name).unwrap().default
    };
    let r = RecurrentOptions::default();
    let t = TransformerOptions::default();
    let eps = |layer: &str| default(layer, "eps");
    assert_eq!(eps("LayerNorm"), Value::Float(LayerNorm::new(&[2]).unwrap().eps));
    assert_eq!(eps("GroupNorm"), Value::Float(GroupNorm::new(1, 2).unwrap().eps));
    assert_eq!((eps("RMSNorm"), RmsNorm::new(&[2]).unwrap().eps), (Value::None, None));
    let batch = BatchNorm::new(2).unwrap();
    assert_eq!(
        (eps("BatchNorm2d"), default("BatchNorm2d", "momentum")),
        (Value::Float(batch.eps), Value::Float(batch.momentum))
    );
    assert_eq!(default("LSTM", "num_layers"), Value::Float(r.layers as f64));
    assert_eq!(default("TransformerEncoderLayer", "dim_feedforward"), Value::Float(t.inner as f64));
    assert_eq!((r.batch_first, r.bias, r.bidirectional, r.dropout), (false, true, false, 0.0));
}

#[test]
fn a_row_checks_its_settings() {
    let row = rows::ROWS.iter().find(|r| r.name == "Conv2d").unwrap();
    let given = |groups: Value| {
        let sizes = [("in_channels", 4.0), ("out_channels", 6.0), ("kernel_size", 3.0)];
        let mut all: Vec<(String, Value)> = sizes.map(|(n, x)| (n.to_string(), Value::Float(x))).into();
        all.push(("groups".to_string(), groups));
        (row.parameters)(&all)
    };
    assert_eq!(given(Value::Float(2.0)).unwrap()[0].shape, [6, 2, 3]);
    let e = given(Value::Float(4.0)).unwrap_err().message;
    assert!(e.contains("4 groups do not divide 4 inputs and 6 outputs"), "{e}");
    let e = given(Value::Bool(true)).unwrap_err().message;
    assert!(e.contains("groups: expected int, not Bool(true)"), "{e}");
    let e = (row.parameters)(&[]).unwrap_err().message;
    assert!(e.contains("in_channels is missing"), "{e}");
}

#[test]
fn pools_and_schedules_have_pytorchs() {
    let all = stored();
    let (max, avg) = (MaxPoolOptions::default(), AvgPoolOptions::default());
    let one = |sizes: &talweg_nn::PerAxis| sizes.resolve(1, "").unwrap()[0];
    assert!(max.stride.is_none() && avg.stride.is_none() && avg.divisor_override.is_none());
    let ours = [
        (
            "nn.MaxPool2d",
            json!({"padding": one(&max.padding), "dilation": one(&max.dilation), "ceil_mode": max.ceil_mode}),
        ),
        ("nn.AvgPool2d", json!({"ceil_mode": avg.ceil_mode, "count_include_pad": avg.count_include_pad})),
    ];
    for (name, ours) in ours {
        let theirs = find(&all, name).unwrap_or_else(|| panic!("no {name}"));
        for (setting, default) in ours.as_object().unwrap() {
            // The settings that PyTorch documents without a default in the signature are compared elsewhere.
            let given = theirs.get(setting).unwrap_or_else(|| panic!("{name} has no {setting}"));
            assert_eq!(value(default), value(given), "{name}.{setting}");
        }
    }
    for row in schedule::ROWS {
        let name = format!("optim.lr_scheduler.{}", row.python);
        assert_settings(&name, find(&all, &name).unwrap_or_else(|| panic!("no {name}")), (row.settings)());
    }
}
