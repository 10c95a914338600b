//! The geometry of sliding windows: what convolution and pooling share.

/// The most spatial dimensions.
pub const DIMS: usize = 3;

/// Windows sliding over up to three spatial dimensions. Fewer dimensions fill from the right,
/// with sizes 1, strides 1 and no padding in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Sizes of the input.
    pub input: [usize; DIMS],
    /// Sizes of the output.
    pub output: [usize; DIMS],
    /// Sizes of the window.
    pub kernel: [usize; DIMS],
    /// Steps of the window.
    pub stride: [usize; DIMS],
    /// Padding before the input.
    pub pad: [usize; DIMS],
    /// Steps inside the window.
    pub dilation: [usize; DIMS],
}

impl Window {
    /// Windows over `input`, with the output size that follows from padding `low` and `high`.
    ///
    /// All slices have the same length, 1 to 3.
    ///
    /// # Panics
    /// When lengths differ, a stride or dilation is 0, or the window is larger than its input.
    pub fn new(
        input: &[usize],
        kernel: &[usize],
        stride: &[usize],
        pad: &[(usize, usize)],
        dilation: &[usize],
    ) -> Window {
        let n = input.len();
        assert!((1..=DIMS).contains(&n), "window: 1 to {DIMS} spatial dimensions expected, got {n}");
        let lengths = [kernel.len(), stride.len(), pad.len(), dilation.len()];
        assert!(
            lengths == [n; 4],
            "window: {n} kernel sizes, strides, paddings and dilations expected, got {lengths:?}"
        );
        let mut w = Window {
            input: [1; DIMS],
            output: [1; DIMS],
            kernel: [1; DIMS],
            stride: [1; DIMS],
            pad: [0; DIMS],
            dilation: [1; DIMS],
        };
        for i in 0..n {
            let d = DIMS - n + i;
            assert!(
                stride[i] > 0 && dilation[i] > 0 && kernel[i] > 0,
                "window: zero stride, dilation or kernel in dimension {i}"
            );
            let reach = dilation[i] * (kernel[i] - 1) + 1;
            let padded = input[i] + pad[i].0 + pad[i].1;
            assert!(padded >= reach, "window: a window of {reach} does not fit an input of {padded} in dimension {i}");
            w.input[d] = input[i];
            w.kernel[d] = kernel[i];
            w.stride[d] = stride[i];
            w.pad[d] = pad[i].0;
            w.dilation[d] = dilation[i];
            w.output[d] = (padded - reach) / stride[i] + 1;
        }
        w
    }

    /// The same windows with other output sizes (ceil mode); `output` as long as in [`Window::new`].
    pub fn with_output(mut self, output: &[usize]) -> Window {
        self.output[DIMS - output.len()..].copy_from_slice(output);
        self
    }

    /// Elements of one input plane.
    pub fn input_len(&self) -> usize {
        self.input.iter().product()
    }

    /// Elements of one output plane.
    pub fn output_len(&self) -> usize {
        self.output.iter().product()
    }

    /// Elements of the window.
    pub fn kernel_len(&self) -> usize {
        self.kernel.iter().product()
    }

    /// The taps of output `o` along dimension `d` that are inside; undilated ones lie together.
    pub(crate) fn inside_taps(&self, d: usize, o: usize) -> std::ops::Range<usize> {
        let mut taps = (0..self.kernel[d]).filter(|&k| self.at(d, o, k).is_some());
        taps.next().map_or(0..0, |first| first..taps.next_back().unwrap_or(first) + 1)
    }

    /// The input position of tap `k` of output `o` along dimension `d`, if inside.
    #[inline(always)]
    pub(crate) fn at(&self, d: usize, o: usize, k: usize) -> Option<usize> {
        let i = (o * self.stride[d] + k * self.dilation[d]).wrapping_sub(self.pad[d]);
        (i < self.input[d]).then_some(i)
    }

    /// The outputs along dimension `d` whose tap `k` is inside the input, as a range.
    #[inline(always)]
    pub(crate) fn inside(&self, d: usize, k: usize) -> (usize, usize) {
        let shift = k * self.dilation[d];
        let (s, p) = (self.stride[d], self.pad[d]);
        let first = p.saturating_sub(shift).div_ceil(s);
        let end = if self.input[d] + p > shift { (self.input[d] + p - shift).div_ceil(s) } else { 0 };
        let end = end.min(self.output[d]);
        (first.min(end), end)
    }

    /// Whether the window is a single element that never leaves the input or skips any.
    pub(crate) fn is_pointwise(&self) -> bool {
        self.kernel == [1; DIMS] && self.stride == [1; DIMS] && self.pad == [0; DIMS] && self.input == self.output
    }
}
