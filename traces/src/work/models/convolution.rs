//! Convolutions: for each element of the result a product over the kernel and the channels of its group, two operations each; with the padding, whose zeros
//! are multiplied too. Both gradients cost as much as the result, each.
//!
//! Source: `conv_flop` and `conv_backward_flop` of `torch.utils.flop_counter`, which counts the same but for the gradient of grouped weights, where it leaves the
//! groups out. Dimensions: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html> and `ConvTranspose2d.html`.

use crate::work::call::{Bytes, Call, bytes_like, bytes_of, bytes_of_all, done, equal};
use crate::work::count::{Count, product};
use crate::work::{Engine, Why, Work};

/// Where the arguments of an operator are, counted from 0.
struct Places {
    bias: Option<usize>,
    stride: usize,
    padding: usize,
    dilation: Option<usize>,
    transposed: Transposed,
    output_padding: Option<usize>,
    groups: Option<usize>,
}

enum Transposed {
    No,
    Yes,
    /// As an argument says.
    At(usize),
}

/// `conv1d(input, weight, bias, stride, padding, dilation, groups)`, 2d, 3d, and the operators of libraries with other orders: `native_functions.yaml` of PyTorch.
fn places(name: &str) -> Option<Places> {
    use Transposed::{At, No, Yes};
    let places = |bias,
                  [stride, padding, dilation, groups]: [usize; 4],
                  transposed,
                  output_padding| Places {
        bias,
        stride,
        padding,
        dilation: Some(dilation),
        transposed,
        output_padding,
        groups: Some(groups),
    };
    Some(match name {
        "conv1d" | "conv2d" | "conv3d" | "cudnn_convolution_relu" | "miopen_convolution_relu" => {
            places(Some(2), [3, 4, 5, 6], No, None)
        }
        "convolution" | "_convolution" | "convolution_overrideable" => {
            places(Some(2), [3, 4, 5, 8], At(6), Some(7))
        }
        "miopen_convolution" | "miopen_depthwise_convolution" | "mkldnn_convolution" => {
            places(Some(2), [4, 3, 5, 6], No, None)
        }
        "cudnn_convolution" => places(None, [3, 2, 4, 5], No, None),
        "cudnn_convolution_transpose" => places(None, [4, 2, 5, 6], Yes, Some(3)),
        "miopen_convolution_transpose" => places(Some(2), [5, 3, 6, 7], Yes, Some(4)),
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => {
            places(Some(2), [3, 4, 7, 6], Yes, Some(5))
        }
        "cudnn_convolution_add_relu" | "miopen_convolution_add_relu" => {
            places(Some(4), [5, 6, 7, 8], No, None)
        }
        "thnn_conv2d" | "_slow_conv2d_forward" | "slow_conv3d" => Places {
            bias: Some(3),
            stride: 4,
            padding: 5,
            dilation: None,
            transposed: No,
            output_padding: None,
            groups: None,
        },
        "_conv_depthwise2d" | "conv_depthwise3d" => Places {
            bias: Some(3),
            stride: 4,
            padding: 5,
            dilation: Some(6),
            transposed: No,
            output_padding: None,
            groups: None,
        },
        _ => return None,
    })
}

/// A value for each dimension of space: one stands for all.
fn spread(list: Vec<u64>, count: usize, name: &str) -> Result<Vec<u64>, Why> {
    match list.len() {
        1 => Ok(vec![list[0]; count]),
        length if length == count => Ok(list),
        length => Err(Why::contradiction(format!(
            "{length} values of {name} for {count} dimensions"
        ))),
    }
}

/// The input with its batch, which it may lack: its size, its channels and its space.
fn batched<'d>(input: &'d [u64], weight: &[u64]) -> Result<(u64, u64, &'d [u64]), Why> {
    match input {
        [batch, channels, space @ ..] if input.len() == weight.len() => {
            Ok((*batch, *channels, space))
        }
        [channels, space @ ..] if input.len() + 1 == weight.len() => Ok((1, *channels, space)),
        _ => Err(Why::contradiction(format!(
            "input {input:?} with weight {weight:?}"
        ))),
    }
}

/// Forward.
pub(super) fn forward(call: Call<'_>) -> Result<Work, Why> {
    let places = places(call.name).ok_or(Why::NoModel)?;
    let (input, weight) = (call.tensor(0, "input")?, call.tensor(1, "weight")?);
    let kernel = match &weight.dimensions[..] {
        [_, _, kernel @ ..] if !kernel.is_empty() => kernel,
        other => return Err(Why::contradiction(format!("weight {other:?}"))),
    };
    let (batch, channels, space) = batched(&input.dimensions, &weight.dimensions)?;
    let sizes = |place: usize, name| spread(call.sizes(place, name)?, space.len(), name);
    let (stride, padding) = (
        sizes(places.stride, "stride")?,
        sizes(places.padding, "padding")?,
    );
    let dilation = match places.dilation {
        Some(place) => sizes(place, "dilation")?,
        None => vec![1; space.len()],
    };
    let is_transposed = match places.transposed {
        Transposed::No => false,
        Transposed::Yes => true,
        Transposed::At(place) => call.flag(place, "transposed")?,
    };
    let groups = match places.groups {
        Some(place) => call.size(place, "groups")?,
        // Depthwise operators have a channel of input for each group, the others one group.
        None => channels.checked_div(weight.dimensions[1]).unwrap_or(0),
    };
    let mut result = Vec::new();
    for (at, &size) in space.iter().enumerate() {
        let reach = (kernel[at].saturating_sub(1))
            .checked_mul(dilation[at])
            .ok_or(Why::TooLarge)?;
        let edge = padding[at].checked_mul(2).ok_or(Why::TooLarge)?;
        result.push(
            match is_transposed {
                true => {
                    let more = match places.output_padding {
                        Some(place) => sizes(place, "output_padding")?[at],
                        None => 0,
                    };
                    let steps = size
                        .saturating_sub(1)
                        .checked_mul(stride[at])
                        .ok_or(Why::TooLarge)?;
                    let all = [steps, reach, more, 1]
                        .iter()
                        .try_fold(0_u64, |sum, one| sum.checked_add(*one));
                    all.ok_or(Why::TooLarge)?.checked_sub(edge)
                }
                false => {
                    let all = size.checked_add(edge).ok_or(Why::TooLarge)?;
                    let steps = all.checked_sub(reach).and_then(|left| left.checked_sub(1));
                    steps
                        .zip(Some(stride[at]))
                        .and_then(|(steps, by)| Some(steps.checked_div(by)? + 1))
                }
            }
            .ok_or_else(|| Why::contradiction(format!("kernel {kernel:?} over {space:?}")))?,
        );
    }
    let [first, second] = [weight.dimensions[0], weight.dimensions[1]];
    // The weight of a transposed one is that of the convolution whose gradient it is.
    let (out_channels, taken_from) = match is_transposed {
        true => (second.checked_mul(groups).ok_or(Why::TooLarge)?, space),
        false => {
            let inputs = second.checked_mul(groups).ok_or(Why::TooLarge)?;
            equal(inputs, channels, "channels")?;
            (first, &result[..])
        }
    };
    if is_transposed {
        equal(first, channels, "channels")?;
    }
    let multiplied = product(&weight.dimensions) * batch * product(taken_from);
    let bias = places.bias.and_then(|place| call.maybe(place));
    let read = || Ok(bytes_of(input)? + bytes_of(weight)? + bytes_of_all(bias)?);
    let results = [&[batch, out_channels], &result[..]].concat();
    done(
        Engine::Matrix,
        input,
        multiplied * 2,
        read(),
        bytes_like(&results, input),
    )
}

/// `convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask)`: of the gradients of
/// input, weight and bias those that the mask wants.
pub(super) fn backward(call: Call<'_>) -> Result<Work, Why> {
    let (gradient, input, weight) = (
        call.tensor(0, "grad_output")?,
        call.tensor(1, "input")?,
        call.tensor(2, "weight")?,
    );
    let (batch, channels, space) = batched(&input.dimensions, &weight.dimensions)?;
    let (others, out_channels, result) = batched(&gradient.dimensions, &weight.dimensions)?;
    equal(batch, others, "batch")?;
    let is_transposed = call.flag(7, "transposed")?;
    let [of_input, of_weight, of_bias] = call.flags(10, "output_mask")?[..] else {
        return Err(Why::NoValue("output_mask"));
    };
    let (taken_from, expected) = match is_transposed {
        true => (space, channels),
        false => (result, out_channels),
    };
    equal(weight.dimensions[0], expected, "channels")?;
    let each = product(&weight.dimensions) * batch * product(taken_from) * 2;
    let wanted = u64::from(of_input) + u64::from(of_weight);
    let read = || {
        let mut all = bytes_of(gradient)?;
        for (is_wanted, tensor) in [(of_weight, input), (of_input, weight)] {
            if is_wanted {
                all = all + bytes_of(tensor)?;
            }
        }
        Ok(all)
    };
    let written = || -> Bytes {
        let mut all = Count::ZERO;
        for (is_wanted, dimensions, like) in [
            (of_input, &input.dimensions[..], input),
            (of_weight, &weight.dimensions[..], weight),
            (of_bias, &[out_channels][..], weight),
        ] {
            if is_wanted {
                all = all + bytes_like(dimensions, like)?;
            }
        }
        Ok(all)
    };
    done(Engine::Matrix, gradient, each * wanted, read(), written())
}

/// The causal convolution of Mamba, forward (`causal_conv1d`, <https://github.com/Dao-AILab/causal-conv1d>): `x` is `batch×channels×length`, `weight` is `channels×width`.
pub(super) fn causal(call: Call<'_>) -> Result<Work, Why> {
    let x = call.tensor(0, "x")?;
    let weight = call.tensor(1, "weight")?;
    let ([batch, channels, length], [of_weight, width]) =
        (&x.dimensions[..], &weight.dimensions[..])
    else {
        return Err(Why::contradiction(format!(
            "{:?} with {:?}",
            x.dimensions, weight.dimensions
        )));
    };
    equal(*channels, *of_weight, "channels")?;
    let operations = product(&[*batch, *channels, *length, *width, 2]);
    let read = || Ok(bytes_of(x)? + bytes_of(weight)? + bytes_of_all(call.maybe(2))?);
    done(
        Engine::Vector,
        x,
        operations,
        read(),
        bytes_like(&x.dimensions, x),
    )
}
