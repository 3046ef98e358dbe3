//! How an output leaves its node.

const KEEP: u16 = 1 << 15;

/// The port of an output, and whether an interrupt keeps it, in two bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery(u16);

impl Delivery {
    /// The highest id of a port.
    pub const MAX_PORT: u16 = KEEP - 1;

    /// Through the first port.
    #[inline]
    pub fn kept_if(keep: bool) -> Self {
        Self(if keep { KEEP } else { 0 })
    }

    /// The same through the port with this id, as in the node's list of ports. 0 is the first port.
    #[inline]
    pub fn through(self, port: u16) -> Self {
        Self((self.0 & KEEP) | (port & Self::MAX_PORT))
    }

    #[inline]
    pub fn port(self) -> u16 {
        self.0 & Self::MAX_PORT
    }

    /// Whether an interrupt keeps the element in its queue.
    #[inline]
    pub fn keeps(self) -> bool {
        self.0 & KEEP != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_and_the_mark_of_an_interrupt_do_not_disturb_each_other() {
        for port in [0, 1, 77, Delivery::MAX_PORT] {
            for keep in [false, true] {
                let delivery = Delivery::kept_if(keep).through(9).through(port);
                assert_eq!((delivery.port(), delivery.keeps()), (port, keep));
            }
        }
    }
}
