//! What one tensor-parallel rank holds of a model.

use kernels::geometry::{ModelGeometry, ModelShape};

/// A count that cannot be divided among the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} = {value}: cannot be divided among {ranks} ranks")]
pub struct ShardError {
    what: &'static str,
    value: u32,
    ranks: u32,
}

/// The shapes of one of `ranks` ranks: query heads, MLP and vocabulary in equal parts; KV heads too, and where there are
/// fewer of them than ranks one for each rank, held by several, as vLLM and SGLang do.
///
/// # Errors
/// What does not divide.
pub(crate) fn rank_of(model: &ModelGeometry, ranks: u32) -> Result<ModelShape, ShardError> {
    let part = |what, value: u32| {
        let divides = ranks > 0 && value.is_multiple_of(ranks);
        if divides { Ok(value / ranks) } else { Err(ShardError { what, value, ranks }) }
    };
    let kv_heads = match model.kv_heads {
        heads if heads < ranks && ranks.is_multiple_of(heads) => 1,
        heads => part("KV heads", heads)?,
    };
    Ok(ModelShape {
        query_heads: part("query heads", model.query_heads)?,
        intermediate: part("MLP width", model.intermediate)?,
        vocabulary: part("vocabulary", model.vocabulary)?,
        kv_heads,
        ..ModelShape::clone(model)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_its_part() {
        let model = ModelGeometry::preset("llama-3-70b").unwrap();
        let shape = rank_of(&model, 4).unwrap();
        assert_eq!((shape.query_heads, shape.kv_heads, shape.intermediate, shape.vocabulary), (16, 2, 7168, 32_064));
        assert_eq!((shape.hidden, shape.layers), (8192, 80));
        // 8 KV heads on 16 ranks: two ranks hold the same one.
        let shape = rank_of(&model, 16).unwrap();
        assert_eq!((shape.query_heads, shape.kv_heads), (4, 1));
        assert_eq!(rank_of(&model, 1).as_ref(), Ok(&*model));
    }

    #[test]
    fn what_does_not_divide_is_named() {
        let refused = |name, ranks| rank_of(&ModelGeometry::preset(name).unwrap(), ranks).unwrap_err().to_string();
        assert_eq!(refused("llama-3-70b", 12), "KV heads = 8: cannot be divided among 12 ranks");
        assert_eq!(refused("qwen2.5-7b", 8), "query heads = 28: cannot be divided among 8 ranks");
        assert_eq!(refused("llama-3-8b", 0), "KV heads = 8: cannot be divided among 0 ranks");
    }
}
