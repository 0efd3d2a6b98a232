//! A list of slots without duplicates, for the connections to serve or to write to.
//!
//! A slot may belong to another connection by the time the list is processed: its user must check what is due on it.

/// A list of slots without duplicates.
#[derive(Default)]
pub struct Slots {
    list: Vec<usize>,
    /// Whether a slot is in `list`, by slot.
    is_listed: Vec<bool>,
}

impl Slots {
    /// Adds a slot, unless it is listed.
    pub fn add(&mut self, slot: usize) {
        if slot >= self.is_listed.len() {
            self.is_listed.resize(slot + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[slot], true) {
            self.list.push(slot);
        }
    }

    /// Returns whether no slot is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes the list, in the order of arrival; slots added from now on are in the next list.
    #[must_use]
    pub fn take(&mut self) -> Vec<usize> {
        for slot in &self.list {
            self.is_listed[*slot] = false;
        }
        std::mem::take(&mut self.list)
    }

    /// Gives a processed list back, for its memory to be used again.
    pub fn give_back(&mut self, mut list: Vec<usize>) {
        if self.list.is_empty() {
            list.clear();
            self.list = list;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn a_slot_is_once_in_a_list_and_may_be_in_the_next() {
        let mut slots = Slots::default();
        for slot in [3, 1, 3] {
            slots.add(slot);
        }
        let list = slots.take();
        assert_eq!(list, [3, 1]);
        assert!(slots.is_empty());
        slots.add(3);
        slots.give_back(list);
        assert_eq!(slots.take(), [3], "a slot added while the list was processed stays");
    }
}
