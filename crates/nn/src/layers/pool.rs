//! Pooling over signals, images and volumes, and `Flatten`: layers without parameters between
//! convolutions and linear maps.

use crate::{Layer, Module, Visitor};
use tensor::Tensor;
use tensor::nn::{AvgPoolOptions, MaxPoolOptions, PerAxis};

macro_rules! pool {
    ($name:ident, $options:ident, $method:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug)]
        pub struct $name {
            window: PerAxis,
            options: $options,
        }
        impl $name {
            /// Windows side by side, without padding.
            pub fn new(window: impl Into<PerAxis>) -> $name {
                $name::with(window, $options::default())
            }
            /// With stride, padding and the like.
            pub fn with(window: impl Into<PerAxis>, options: $options) -> $name {
                $name { window: window.into(), options }
            }
        }
        impl Module for $name {
            fn visit(&self, _: &str, _: &mut dyn Visitor) {}
        }
        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.window.clone(), self.options.clone())
            }
        }
    };
}
pool!(MaxPool1d, MaxPoolOptions, max_pool1d, "The largest element of each window of signals `[N, C, L]`.");
pool!(MaxPool2d, MaxPoolOptions, max_pool2d, "The largest element of each window of images `[N, C, H, W]`.");
pool!(MaxPool3d, MaxPoolOptions, max_pool3d, "The largest element of each window of volumes `[N, C, D, H, W]`.");
pool!(AvgPool1d, AvgPoolOptions, avg_pool1d, "The mean of each window of signals `[N, C, L]`.");
pool!(AvgPool2d, AvgPoolOptions, avg_pool2d, "The mean of each window of images `[N, C, H, W]`.");
pool!(AvgPool3d, AvgPoolOptions, avg_pool3d, "The mean of each window of volumes `[N, C, D, H, W]`.");

macro_rules! adaptive {
    ($name:ident, $method:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug)]
        pub struct $name {
            out: PerAxis,
        }
        impl $name {
            /// Pools to this output size, for any input size.
            pub fn new(out: impl Into<PerAxis>) -> $name {
                $name { out: out.into() }
            }
        }
        impl Module for $name {
            fn visit(&self, _: &str, _: &mut dyn Visitor) {}
        }
        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.out.clone())
            }
        }
    };
}
adaptive!(AdaptiveMaxPool1d, adaptive_max_pool1d, "The largest elements of as many windows as asked for, of signals.");
adaptive!(AdaptiveMaxPool2d, adaptive_max_pool2d, "The largest elements of as many windows as asked for, of images.");
adaptive!(AdaptiveMaxPool3d, adaptive_max_pool3d, "The largest elements of as many windows as asked for, of volumes.");
adaptive!(AdaptiveAvgPool1d, adaptive_avg_pool1d, "The means of as many windows as asked for, of signals.");
adaptive!(AdaptiveAvgPool2d, adaptive_avg_pool2d, "The means of as many windows as asked for, of images.");
adaptive!(AdaptiveAvgPool3d, adaptive_avg_pool3d, "The means of as many windows as asked for, of volumes.");

/// Several dimensions as one; by default all but the first.
///
/// ```
/// # use talweg_nn::{Flatten, Layer, MaxPool2d, Sequential};
/// # use tensor::Tensor;
/// let model = Sequential::new().with(MaxPool2d::new(2)).with(Flatten::default());
/// let x = Tensor::arange(0.0f32..16.0).reshape([1, 1, 4, 4]);
/// let y = model.forward(&x);
/// assert_eq!(y.dims().unwrap(), [1, 4]);
/// assert_eq!(y.to_vec::<f32>().unwrap(), [5.0, 7.0, 13.0, 15.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Flatten {
    start: i64,
    end: i64,
}
impl Default for Flatten {
    fn default() -> Flatten {
        Flatten::new(1, -1)
    }
}
impl Flatten {
    /// Dimensions `start` to `end`, both included, negative ones from the end.
    pub fn new(start: i64, end: i64) -> Flatten {
        Flatten { start, end }
    }
}
impl Module for Flatten {
    fn visit(&self, _: &str, _: &mut dyn Visitor) {}
}
impl Layer for Flatten {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.flatten(self.start, self.end)
    }
}
