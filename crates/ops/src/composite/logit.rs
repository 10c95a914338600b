//! `logit`: the inverse of the sigmoid.

super::activation! {
    /// log(x / (1 - x)), elementwise; NaN outside [0, 1].
    logit();
    body: |x| (x / (1.0 - x)).log();
    grad: |x, _y, g| g / (&x * (1.0 - &x));
    samples: (0.1, 0.9) => [()];
    example: (), [0.5, 0.75] => [0.0, 1.0986122886681098], "by hand: log 3";
}

impl crate::Tensor {
    /// log(x / (1 - x)), elementwise, with x moved into [eps, 1 - eps] first.
    #[track_caller]
    pub fn logit_eps(&self, eps: f64) -> crate::Tensor {
        let hi = crate::Tensor::where_(&self.gt(1.0 - eps), &self.full_like(1.0 - eps), self);
        crate::Tensor::where_(&self.lt(eps), &self.full_like(eps), &hi).logit()
    }
}
