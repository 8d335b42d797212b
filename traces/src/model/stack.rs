//! Call stacks as a tree, so that each is one number.

use std::collections::HashMap;

use super::TextId;

/// A function at a place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Frame {
    /// The function.
    pub function: TextId,
    /// The file that it was loaded from; of Python functions, that of their module.
    pub mapping: TextId,
    /// The source file; empty if unknown.
    pub source: TextId,
    /// The line in it; 0 if unknown.
    pub line: u32,
}

/// A frame of a [`Stacks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct FrameId(u32);

impl FrameId {
    /// Its place in tables by frame.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A call stack of a [`Stacks`]: its innermost frame and the stack below that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct StackId(u32);

impl StackId {
    /// The stack without frames.
    pub const ROOT: Self = Self(0);

    /// The id of a place in tables by stack.
    #[inline]
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Its place in tables by stack.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All call stacks that were seen. A stack is the child of the one that lacks its innermost frame.
#[derive(Debug)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_ids: HashMap<Frame, FrameId>,
    nodes: Vec<(StackId, FrameId)>,
    node_ids: HashMap<(StackId, FrameId), StackId>,
}

impl Default for Stacks {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            frame_ids: HashMap::new(),
            // The root has no frame; its number is never looked up.
            nodes: vec![(StackId::ROOT, FrameId(u32::MAX))],
            node_ids: HashMap::new(),
        }
    }
}

impl Stacks {
    /// The id of a frame.
    pub fn frame_id(&mut self, frame: Frame) -> FrameId {
        let frames = &mut self.frames;
        *self.frame_ids.entry(frame).or_insert_with(|| {
            frames.push(frame);
            FrameId((frames.len() - 1) as u32)
        })
    }

    /// The stack of `frame` called from `caller`.
    pub fn child(&mut self, caller: StackId, frame: FrameId) -> StackId {
        let nodes = &mut self.nodes;
        *self.node_ids.entry((caller, frame)).or_insert_with(|| {
            nodes.push((caller, frame));
            StackId((nodes.len() - 1) as u32)
        })
    }

    /// The frame of an id.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.0 as usize)
    }

    /// All frames, in the order of their places in tables.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The stack that called the innermost frame of a stack, and that frame; `None` for [`StackId::ROOT`].
    #[must_use]
    pub fn node(&self, stack: StackId) -> Option<(StackId, FrameId)> {
        let node = self.nodes.get(stack.index()).copied();
        node.filter(|_| stack != StackId::ROOT)
    }

    /// The innermost frame of a stack, and the stack that called it; `None` for [`StackId::ROOT`].
    #[must_use]
    pub fn split(&self, stack: StackId) -> Option<(&Frame, StackId)> {
        let &(caller, frame) = self.nodes.get(stack.index())?;
        Some((self.frame(frame)?, caller))
    }

    /// The frames of a stack, innermost first.
    pub fn innermost_first(&self, stack: StackId) -> impl Iterator<Item = &Frame> {
        let mut at = stack;
        std::iter::from_fn(move || {
            let (frame, caller) = self.split(at)?;
            at = caller;
            Some(frame)
        })
    }

    /// All stacks, in the order of their places in tables.
    pub fn ids(&self) -> impl Iterator<Item = StackId> + use<> {
        (0..self.nodes.len() as u32).map(StackId)
    }

    /// How many stacks there are, the empty one among them; ids are below. The caller of a stack has a smaller id than the stack.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the empty stack is always there"
    )]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Texts;

    #[test]
    fn equal_stacks_are_one() {
        let (mut texts, mut stacks) = (Texts::default(), Stacks::default());
        let mut frame = |name| Frame {
            function: texts.intern(name),
            ..Frame::default()
        };
        let (main, work) = (frame("main"), frame("work"));
        let stack = |stacks: &mut Stacks| {
            let (main, work) = (stacks.frame_id(main), stacks.frame_id(work));
            let outer = stacks.child(StackId::ROOT, main);
            stacks.child(outer, work)
        };
        let (one, other) = (stack(&mut stacks), stack(&mut stacks));
        assert_eq!(one, other);
        let frames: Vec<_> = stacks.innermost_first(one).copied().collect();
        assert_eq!(frames, [work, main]);
        assert!(stacks.split(StackId::ROOT).is_none());
    }
}
