//! mcrouter's shadows: any number beside a route or a pool there, and one per route here.

use serde_json::Value as Json;

use super::{Reader, kind, list, pool_name};

impl Reader {
    /// Adds the routes for a handle whose requests are repeated on these shadows.
    pub(super) fn shadowed(
        &mut self,
        prefix: &str,
        commands: &[&str],
        route: &Json,
        shadows: &Json,
    ) -> Result<(), String> {
        let before = self.import.routes.len();
        self.routes(prefix, commands, route)?;
        for shadow in list(shadows) {
            self.report_unknown_of_shadow(shadow);
            let Some(share) = self.share(shadow) else { continue };
            let routes = &self.import.routes[before..];
            let is_taken = routes.iter().any(|route| route.shadow.is_some());
            let is_free = routes.iter().any(|route| route.shadow.is_none());
            if is_taken {
                self.import.leave_out(format!("the shadow {}: a route has one", target(shadow)));
            }
            if is_free && let Some(pool) = self.pool(&shadow["target"])? {
                let bare = self.import.routes[before..].iter_mut().filter(|route| route.shadow.is_none());
                bare.for_each(|route| route.shadow = Some((pool.clone(), share)));
            }
        }
        Ok(())
    }

    /// Returns the share of the keys that a shadow gets. None: it gets none, which was reported.
    fn share(&mut self, shadow: &Json) -> Option<f64> {
        let name = target(shadow);
        if !shadow["index_range"].is_null() {
            self.import.leave_out("index_range of a shadow: keys are chosen, not servers");
        }
        let range = &shadow["key_fraction_range"];
        if range.is_null() {
            return Some(1.0);
        }
        let (from, to) = (range[0].as_f64().unwrap_or(-1.0), range[1].as_f64().unwrap_or(-1.0));
        // Rounded to remove binary errors: 0.6 - 0.5 is to be 0.1.
        let share = ((to - from) * 1e9).round() / 1e9;
        if from < 0.0 || to > 1.0 || share <= 0.0 {
            self.import
                .leave_out(format!("the shadow {name}: key_fraction_range {range} is no share of the keys"));
            return None;
        }
        if from > 0.0 {
            self.import.leave_out(format!(
                "key_fraction_range {range} of the shadow {name}: it gets as many keys, and others"
            ));
        }
        Some(share)
    }
}

/// Returns a shadow's name.
fn target(shadow: &Json) -> &str {
    pool_name(&shadow["target"], kind(&shadow["target"]).1)
}
