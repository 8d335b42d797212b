//! The process in which counters are read: this program, called [`NAME`]. It speaks as [`crate::smi::reader`] does, with what is to be read as
//! `0000:10:00.0=reduce(SQ:4,sum)`: an expression over events, each a block and a number. Values are what was counted since the reading before, and
//! their times the beginning of that.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};

use rsys_machine::gpu::expression::{Expression, Reduction};

use super::device::Device;
use super::events::event;
use super::library::Library;
use crate::os;
use crate::smi::reader::{one_line, set_up};

/// What it is called.
pub const NAME: &str = "rsys-gpu-counter-reader";

/// Whether this process is such a reader.
#[must_use]
pub fn is_called() -> bool {
    std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// Reads and answers until nobody asks any more.
pub fn serve() -> ! {
    let outcome = match set_up() {
        Ok(mut out) => answer(&mut out, std::env::args_os().skip(2)),
        Err(error) => writeln!(io::stdout(), "N its process cannot be set up: {error}"),
    };
    os::exit_at_once(i32::from(outcome.is_err()))
}

/// A counter that is asked for.
struct Wanted {
    address: String,
    expression: Result<Expression, String>,
    /// The events in it.
    events: Vec<String>,
}

impl Wanted {
    fn new(word: &OsString) -> Self {
        let text = word.to_string_lossy();
        let (address, expression) = text.split_once('=').unwrap_or((&text, ""));
        let expression = Expression::parse(expression);
        let names = expression.as_ref().map_or(Vec::new(), Expression::names);
        let events = names.into_iter().filter(|name| event(name).is_some());
        let mut events: Vec<String> = events.map(str::to_owned).collect();
        events.sort();
        events.dedup();
        Self {
            address: address.to_owned(),
            events,
            expression,
        }
    }

    /// What it counted, and since when. Nothing where there is no news.
    fn read(&self, device: &Device) -> Option<(u64, f64)> {
        let (known, since_ns) = device.counted(&self.events)?;
        let values = self.expression.as_ref().ok()?.values(&known)?;
        let value = Reduction::Sum.of(&values)?;
        value.is_finite().then_some((since_ns, value))
    }
}

/// A GPU that is counted, or why it is not; and its events that are not.
type Started = (Result<Device, String>, BTreeMap<String, String>);

fn answer(out: &mut File, words: impl Iterator<Item = OsString>) -> io::Result<()> {
    let library = match Library::open() {
        Ok(library) => library,
        Err(reason) => return writeln!(out, "N {}", one_line(&reason)),
    };
    writeln!(out, "L libhsa-amd-aqlprofile64")?;
    let wanted: Vec<Wanted> = words.map(|word| Wanted::new(&word)).collect();
    let mut devices: BTreeMap<&str, Started> = BTreeMap::new();
    for gpu in &library.gpus {
        let own = wanted.iter().filter(|one| one.address == gpu.address);
        let mut events: Vec<(String, u32)> = own
            .flat_map(|one| one.events.iter().filter_map(|name| event(name)))
            .collect();
        events.sort();
        events.dedup();
        let started = match Device::start(library, gpu, &events) {
            _ if events.is_empty() => continue,
            Ok((device, refused)) => (Ok(device), refused),
            Err(reason) => (Err(reason), BTreeMap::new()),
        };
        devices.insert(&gpu.address, started);
    }
    let mut asked = [0];
    while io::stdin().read(&mut asked)? == 1 {
        for (device, _) in devices.values_mut() {
            if let Ok(device) = device {
                device.read();
            }
        }
        let mut text = String::new();
        for (number, one) in wanted.iter().enumerate() {
            match state(one, &devices) {
                Err(reason) => text.push_str(&format!("E {number} {}\n", one_line(&reason))),
                Ok(device) => {
                    if let Some((since_ns, value)) = one.read(device) {
                        text.push_str(&format!("V {number} {since_ns} {value}\n"));
                    }
                }
            }
        }
        text.push_str("T\n");
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// The GPU that counts it, or why it is not counted.
fn state<'d>(wanted: &Wanted, devices: &'d BTreeMap<&str, Started>) -> Result<&'d Device, String> {
    if let Err(reason) = &wanted.expression {
        return Err(reason.clone());
    }
    let (device, refused) = devices
        .get(&*wanted.address)
        .ok_or("the HSA runtime does not know this GPU")?;
    let device = device.as_ref().map_err(Clone::clone)?;
    let missing = wanted.events.iter().find_map(|event| refused.get(event));
    missing.map_or(Ok(device), |reason| Err(reason.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_an_expression_are_those_with_a_block() {
        let wanted = Wanted::new(&"0000:10:00.0=100*reduce(SQ:4,sum)/(SQ:4+GRBM:0)/CU_NUM".into());
        assert_eq!(wanted.address, "0000:10:00.0");
        assert_eq!(wanted.events, ["GRBM:0", "SQ:4"]);
        assert!(
            Wanted::new(&"0000:10:00.0=reduce(".into())
                .expression
                .is_err()
        );
        assert_eq!(event("SQ:4"), Some(("SQ".to_owned(), 4)));
        assert_eq!(event("CU_NUM"), None);
    }
}
