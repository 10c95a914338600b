//! Messages of the libraries to the people who run a program: events of `tracing`.
//!
//! A program that sets a subscriber gets them there. Otherwise they go to standard error, if their level is at least
//! the one that `TALWEG_LOG` names: `off`, `error`, `warn`, `info` (the default), `debug` or `trace`.

use std::fmt::Display;
use std::sync::LazyLock;
use tracing::Level;
use tracing::level_filters::LevelFilter;

static SHOWN: LazyLock<LevelFilter> = LazyLock::new(|| filter(std::env::var("TALWEG_LOG").ok().as_deref()));

fn filter(text: Option<&str>) -> LevelFilter {
    text.and_then(|t| t.parse().ok()).unwrap_or(LevelFilter::INFO)
}

/// Something works, but not as well as it could.
pub fn warn(text: impl Display) {
    if is_heard(Level::WARN, &text) {
        tracing::warn!("{text}");
    }
}

/// Something that a person may want to know.
pub fn info(text: impl Display) {
    if is_heard(Level::INFO, &text) {
        tracing::info!("{text}");
    }
}

/// True if the program has a subscriber; if not, standard error is told.
fn is_heard(level: Level, text: &dyn Display) -> bool {
    let has_subscriber = tracing::dispatcher::has_been_set();
    if !has_subscriber && level <= *SHOWN {
        eprintln!("{text}");
    }
    has_subscriber
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    #[test]
    fn levels() {
        assert_eq!((filter(None), filter(Some("nonsense"))), (LevelFilter::INFO, LevelFilter::INFO));
        assert_eq!((filter(Some("off")), filter(Some("warn"))), (LevelFilter::OFF, LevelFilter::WARN));
        assert!(Level::WARN <= filter(Some("warn")) && Level::INFO > filter(Some("warn")));
    }

    struct Heard(Arc<Mutex<Vec<String>>>);
    impl Subscriber for Heard {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            struct Text<'a>(&'a Heard, Level);
            impl Visit for Text<'_> {
                fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
                    self.0.0.lock().unwrap().push(format!("{} {value:?}", self.1));
                }
            }
            event.record(&mut Text(self, *event.metadata().level()));
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_subscriber_gets_the_events() {
        let heard = Arc::default();
        tracing::subscriber::set_global_default(Heard(Arc::clone(&heard))).unwrap();
        warn("slow");
        info(format_args!("{} of {}", 1, 2));
        assert_eq!(*heard.lock().unwrap(), ["WARN slow", "INFO 1 of 2"]);
    }
}
