//! Walks that are compared with the walk before find what walks from nothing find: whatever of the stack has changed in between, and whatever has not.

use proptest::collection::vec;
use proptest::prelude::*;
use rsys_unwind::{
    CfiEngine, EXACT, End, Engine, FrameBuffer, LastWalk, Memory, ModuleTables, Modules, Registers,
};

const CODE: u64 = 0x40_0000;
const EH_FRAME: u64 = 0x60_0000;
/// One past the outermost word.
const TOP: u64 = 0x7000_4000;
const WORDS: usize = 0x800;
/// Bytes of a function.
const FUNCTION: u64 = 0x100;

/// What a function does with its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nobody has called it.
    Root,
    /// So many words below the return address; the frame pointer is left alone.
    Plain(u64),
    /// The same, of which the first saves the frame pointer, and the register is used for something else.
    Busy(u64),
    /// The frame pointer points to where it was saved; so many words below that, and as many more as the call wants (`alloca`), in which is what was
    /// there before.
    Framed(u64),
}

const FUNCTIONS: [Shape; 7] = [
    Shape::Root,
    Shape::Plain(0),
    Shape::Plain(5),
    Shape::Busy(1),
    Shape::Busy(4),
    Shape::Framed(0),
    Shape::Framed(6),
];

/// The tables of the functions.
fn eh_frame() -> Vec<u8> {
    // "zR", factors 1 and -8, return address in 16, pc-relative addresses; CFA = rsp + 8, the return address right below.
    let cie = [
        &[0, 0, 0, 0, 1][..],
        b"zR\0",
        &[1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0],
    ]
    .concat();
    let mut section = (cie.len() as u32).to_le_bytes().to_vec();
    section.extend(cie);
    for (number, shape) in FUNCTIONS.iter().enumerate() {
        let at = section.len() as u32;
        let program = match *shape {
            Shape::Root => vec![0x07, 16],
            Shape::Plain(words) => vec![0x0e, 8 * (words as u8 + 1)],
            Shape::Busy(words) => vec![0x0e, 8 * (words as u8 + 1), 0x86, 2],
            Shape::Framed(_) => vec![0x0c, 6, 16, 0x86, 2],
        };
        let mut fde = (at + 4).to_le_bytes().to_vec();
        let start = CODE + FUNCTION * number as u64;
        let field = EH_FRAME + u64::from(at) + 8;
        fde.extend((start.wrapping_sub(field) as u32).to_le_bytes());
        fde.extend((FUNCTION as u32).to_le_bytes());
        fde.push(0);
        fde.extend(program);
        section.extend((fde.len() as u32).to_le_bytes());
        section.extend(fde);
    }
    section.extend([0; 4]);
    section
}

/// A thread's stack, and the tables.
struct World {
    eh_frame: Vec<u8>,
    stack: Vec<u64>,
    generation: u32,
}

impl Memory for World {
    fn read_u64(&self, address: u64) -> Option<u64> {
        if let Some(at) = address.checked_sub(TOP - 8 * WORDS as u64) {
            return self
                .stack
                .get(usize::try_from(at / 8).ok()?)
                .filter(|_| at % 8 == 0)
                .copied();
        }
        if let Some(at) = address.checked_sub(EH_FRAME) {
            let at = usize::try_from(at).ok()?;
            let bytes = self.eh_frame.get(at..at + 8)?;
            return Some(u64::from_le_bytes(bytes.try_into().ok()?));
        }
        (CODE..CODE + 0x1000).contains(&address).then_some(0)
    }
}

impl Modules for World {
    fn find(&self, pc: u64) -> Option<ModuleTables> {
        let range = CODE..CODE + FUNCTION * FUNCTIONS.len() as u64;
        range.contains(&pc).then_some(ModuleTables {
            range,
            eh_frame_hdr: 0,
            eh_frame: EH_FRAME,
        })
    }

    fn generation(&self) -> u32 {
        self.generation
    }
}

/// A call that is under way: the function, where in it the next call is, and what its own words hold.
#[derive(Clone, Copy, Debug)]
struct Call {
    function: usize,
    offset: u64,
    noise: u64,
}

impl Call {
    fn pc(self) -> u64 {
        CODE + FUNCTION * self.function as u64 + self.offset
    }
}

fn call() -> impl Strategy<Value = Call> {
    // Few places and values, so that equal ones come again.
    (
        1..FUNCTIONS.len(),
        prop::sample::select(vec![8_u64, 16, 77]),
        0_u64..3,
    )
        .prop_map(|(function, offset, noise)| Call {
            function,
            offset,
            noise,
        })
}

/// Makes the stack that these calls make, outermost first. The registers in the last function, and the frames that a walk has to find.
fn push(world: &mut World, calls: &[Call], first_fp: u64) -> (Registers, Vec<u64>) {
    let root = Call {
        function: 0,
        offset: 40,
        noise: 0,
    };
    let (mut sp, mut fp) = (TOP, first_fp);
    let put = |sp: &mut u64, word: u64, stack: &mut Vec<u64>| {
        *sp -= 8;
        stack[((*sp + 8 * WORDS as u64 - TOP) / 8) as usize] = word;
    };
    let mut before = root;
    for call in calls {
        put(&mut sp, before.pc(), &mut world.stack);
        let mut words = match FUNCTIONS[call.function] {
            Shape::Root => unreachable!("the root calls"),
            Shape::Plain(words) => words,
            Shape::Busy(words) => {
                put(&mut sp, fp, &mut world.stack);
                fp = call.noise;
                words - 1
            }
            Shape::Framed(words) => {
                put(&mut sp, fp, &mut world.stack);
                fp = sp;
                sp -= 8 * call.noise;
                words
            }
        };
        while words > 0 {
            put(&mut sp, call.noise, &mut world.stack);
            words -= 1;
        }
        before = *call;
    }
    let mut frames: Vec<u64> = std::iter::once(&root)
        .chain(calls)
        .map(|call| call.pc())
        .rev()
        .collect();
    frames[0] |= EXACT;
    (Registers::new(before.pc(), sp, fp), frames)
}

/// What becomes of a stack: calls return, others are made, and somewhere in between one becomes another.
#[derive(Clone, Debug)]
struct Change {
    returns: usize,
    calls: Vec<Call>,
    other: Option<(usize, Call)>,
    slips: bool,
    fp: u64,
    generation: bool,
}

fn change() -> impl Strategy<Value = Change> {
    let returns = prop_oneof![3 => 0_usize..4, 1 => 0_usize..40];
    let calls = prop_oneof![3 => vec(call(), 0..4), 1 => vec(call(), 0..30)];
    let other = prop::option::weighted(0.3, (any::<usize>(), call()));
    let rarely = prop::bool::weighted(0.05);
    let slips = prop::bool::weighted(0.3);
    (returns, calls, other, slips, 0_u64..2, rarely).prop_map(
        |(returns, calls, other, slips, fp, generation)| Change {
            returns,
            calls,
            other,
            slips,
            fp,
            generation,
        },
    )
}

/// A frame begins further in, and ends where it ended: another function takes the room. All that was called from it stays where it was.
fn slip(calls: &mut Vec<Call>) {
    let framed = |call: &Call| matches!(FUNCTIONS[call.function], Shape::Framed(_));
    if let Some(place) = calls.iter().position(|call| framed(call) && call.noise > 0) {
        calls[place].noise -= 1;
        let small = Call {
            function: 1,
            offset: 8,
            noise: 0,
        };
        calls.insert(place, small);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 2000 }))]

    #[test]
    fn a_stack_that_changes_is_found_as_it_is(
        changes in vec(change(), 1..24),
        limit in prop_oneof![4 => Just(256_usize), 1 => 1_usize..40],
    ) {
        let engine = CfiEngine::without_cache();
        let mut world = World {
            eh_frame: eh_frame(),
            stack: vec![0; WORDS],
            generation: 1,
        };
        let mut last = Box::new(LastWalk::new());
        let mut calls: Vec<Call> = Vec::new();
        // The frames of the walk that the next is compared with.
        let mut kept: Vec<u64> = Vec::new();
        for change in changes {
            calls.truncate(calls.len().saturating_sub(change.returns));
            if let Some((place, other)) = change.other && !calls.is_empty() {
                let place = place % calls.len();
                calls[place] = other;
            }
            if change.slips {
                slip(&mut calls);
            }
            calls.extend(change.calls);
            calls.truncate(100);
            world.generation += u32::from(change.generation);
            let (registers, mut expected) = push(&mut world, &calls, change.fp);
            let is_whole = expected.len() <= limit;
            expected.truncate(limit);
            let mut words = vec![0; limit];
            let mut frames = FrameBuffer::new(&mut words);
            let walked = engine.walk_again(&registers, &world, &world, &mut last, &mut frames);
            prop_assert_eq!(frames.words(), &expected[..]);
            prop_assert_eq!(walked.end, if is_whole { End::Root } else { End::Truncated });
            prop_assert_eq!(walked.kept, is_whole);
            prop_assert!(!change.generation || walked.shared == 0);
            let tail = |frames: &[u64]| frames[frames.len() - walked.shared..].to_vec();
            prop_assert!(walked.shared <= kept.len() && tail(&expected) == tail(&kept));
            if walked.kept {
                kept = expected;
            }
            // The same again is known to the last frame.
            let mut again = vec![0; limit];
            let mut frames = FrameBuffer::new(&mut again);
            let walked = engine.walk_again(&registers, &world, &world, &mut last, &mut frames);
            prop_assert!(!is_whole || walked.shared == kept.len());
            let mut alone = vec![0; limit];
            let mut frames = FrameBuffer::new(&mut alone);
            let end = CfiEngine::without_cache().walk(&registers, &world, &world, &mut frames);
            prop_assert_eq!(end, walked.end);
            prop_assert!(words == again && words == alone);
        }
    }
}
